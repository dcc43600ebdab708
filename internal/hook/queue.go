package hook

import "strings"

// MainQueue is the default queue. It is never keyed.
const MainQueue = "main"

// Lanes divide a queue by a key. The zero value is one lane: strict FIFO. Equal values divide a queue equally.
type Lanes struct {
	// Key selects the key of an event; empty means that the queue is not keyed.
	Key Key
	// Concurrency is the largest number of runs in flight: 1 to 1000 with a Key, 0 without one, which means 1.
	Concurrency int
	// Secret reports that keys may be values of Secrets: they are shown as hashes. LanesOf sets it.
	Secret bool
}

// Keyed reports whether the queue has a lane for each key.
func (l Lanes) Keyed() bool { return l.Key != "" }

// Key is the source of an object's key in a keyed queue: ByObject, ByNamespace, or a jq expression that begins with a dot and compiles.
type Key string

const (
	ByObject    Key = "object"
	ByNamespace Key = "namespace"
)

// Filter returns the jq expression, or "" for a Key that needs none.
func (k Key) Filter() string {
	if k == ByObject || k == ByNamespace {
		return ""
	}
	return string(k)
}

// KeyOfSecret reports whether the keys of the binding in its queue may be values of Secrets.
func (k *Kubernetes) KeyOfSecret() bool {
	return k.Lanes.Key.Filter() != "" && (strings.EqualFold(k.Kind, "Secret") || strings.EqualFold(k.Kind, "secrets"))
}

// LanesOf returns the keyed queues of hooks by name. All kubernetes bindings of a queue agree in a set from package hookset.
func LanesOf(hooks []*Hook) map[string]Lanes {
	keyed := map[string]Lanes{}
	for _, h := range hooks {
		for i := range h.Kubernetes {
			if k := &h.Kubernetes[i]; k.Lanes.Keyed() {
				lanes := k.Lanes
				lanes.Secret = keyed[k.Queue].Secret || k.KeyOfSecret()
				keyed[k.Queue] = lanes
			}
		}
	}
	return keyed
}
