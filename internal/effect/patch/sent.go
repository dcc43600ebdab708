package patch

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// maxSent bounds the memory of what was sent, about 2 MiB.
const maxSent = 10_000

// Sent is a kind of operations that a hook has requested and the operator has sent, with a rule that it needs.
type Sent struct {
	Hook      string `json:"hook"`
	Operation string `json:"operation"`
	// Namespace is empty for resources without namespaces.
	Namespace string    `json:"namespace,omitempty"`
	Group     string    `json:"group"`
	Resource  string    `json:"resource"`
	Verbs     []string  `json:"verbs"`
	First     time.Time `json:"first"`
}

// ledger keeps what was sent.
type ledger struct {
	// mu guards what follows. It is a leaf.
	mu      sync.Mutex
	seen    map[[6]string]bool
	all     []Sent
	dropped int
}

// note keeps an operation with the rules that it needs in a namespace; empty means cluster-wide.
func (l *ledger) note(hook string, operation effect.Operation, namespace string, rules ...kube.Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rules {
		// The namespace is cloned: it is a part of the text of a file.
		key := [6]string{hook, operation.String(), strings.Clone(namespace), r.Group, r.Resource, strings.Join(r.Verbs, " ")}
		switch {
		case l.seen[key]:
		case len(l.all) == maxSent:
			l.dropped++
		default:
			l.seen[key] = true
			l.all = append(l.all, Sent{hook, key[1], key[2], r.Group, strings.Clone(r.Resource), r.Verbs, time.Now()})
		}
	}
}

// Sent returns the kinds of operations that were sent, in the order of their first one, and the number of operations of further kinds.
func (a *Applier) Sent() (all []Sent, dropped int) {
	a.sent.mu.Lock()
	defer a.sent.mu.Unlock()
	return slices.Clone(a.sent.all), a.sent.dropped
}
