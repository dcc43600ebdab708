package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Why a recording has no values.
const (
	secretContexts   = "its binding contexts have a Secret"
	tokenContexts    = "its binding contexts have the path of a webhook, which is secret"
	answersRequest   = "it answers an HTTP request"
	secretOperations = "its operations or its response may have a Secret"
	secretCalls      = "it called kubectl on Secrets, or too often to know"
	secretWorker     = "its hook is a worker that gets Secrets or HTTP requests"
	unreadFile       = "a file that the hook wrote could not be read"
)

// pathToken is the end of a path in a registration of webhooks, by which the operator knows the API server.
var pathToken = regexp.MustCompile(`/[0-9a-f]{64}\b`)

// ofContexts returns why nothing is kept of binding contexts; it is empty if they are kept.
func ofContexts(h *hook.Hook, contexts []byte) (reason string, err error) {
	var heads []struct {
		Binding, Type string
		Snapshots     map[string]skipped
	}
	if err := json.Unmarshal(contexts, &heads); err != nil {
		return "", fmt.Errorf("cannot read the binding contexts: %w", err)
	}
	secrets := secretBindings(h)
	for _, c := range heads {
		if c.Type == "HTTP" {
			return answersRequest, nil
		}
		snapshots := secrets[c.Binding]
		for name := range c.Snapshots {
			snapshots = snapshots || secrets[name]
		}
		if snapshots {
			return secretContexts, nil
		}
	}
	switch {
	case hasSecret(contexts):
		return secretContexts, nil
	case bytes.Contains(contexts, []byte("clientConfig")) && pathToken.Match(contexts):
		return tokenContexts, nil
	case remembersSecrets(h):
		return secretWorker, nil
	}
	return "", nil
}

// skipped is a JSON value that is not copied.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// hasSecret reports whether a JSON text has an object of kind Secret, or what names one. With an escape of any letter, the text is decoded
// to be sure; so it is if it is no JSON.
func hasSecret(text []byte) bool {
	// Saves a fifth of the CPU time of a small recording (BenchmarkKeep).
	if !bytes.Contains(text, []byte("ecret")) && !bytes.Contains(text, []byte("ECRET")) && !bytes.Contains(text, []byte(`\u00`)) {
		return false
	}
	from := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	kind := false
	for {
		token, err := from.ReadToken()
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
		word := ""
		if token.Kind() == '"' {
			word = token.String()
		}
		if kind && isSecretKind(word) {
			return true
		}
		kind = strings.EqualFold(word, "kind")
	}
}

func isSecretKind(kind string) bool {
	return strings.EqualFold(kind, "Secret") || strings.EqualFold(kind, "secrets") || strings.EqualFold(kind, "SecretList")
}

var (
	kindSecret = regexp.MustCompile(`(?i)kind\W*secrets?(list)?(\W|$)`)
	// hidden are the ways to write a letter as something else in JSON and YAML.
	hidden = regexp.MustCompile(`(?i)secret|\\[xu\r\n]|!!?binary`)
)

// mayBeOnSecrets reports whether the text of operations may have some on Secrets that are in no form: operations in an invalid file,
// operations that a later one replaces, and what is in keys that the operation does not have.
func mayBeOnSecrets(text []byte, valid bool) bool {
	return kindSecret.Match(text) || !valid && hidden.Match(text)
}

func secretBindings(h *hook.Hook) map[string]bool {
	names := map[string]bool{}
	for _, k := range h.Kubernetes {
		if isSecretKind(k.Kind) {
			names[k.Name] = true
		}
	}
	return names
}

// remembersSecrets reports that a process of the hook serves several runs, some of which may have Secrets or HTTP requests: what it prints
// in another run may be of them.
func remembersSecrets(h *hook.Hook) bool {
	if h.Settings.Worker == nil {
		return false
	}
	reviewed := func(b hook.Admission) bool {
		return slices.ContainsFunc(b.Rules, func(r hook.Rule) bool {
			return slices.ContainsFunc(r.Resources, func(resource string) bool {
				resource, _, _ = strings.Cut(resource, "/")
				return resource == "secrets" || resource == "*"
			})
		})
	}
	return len(secretBindings(h)) > 0 || len(h.HTTP) > 0 || slices.ContainsFunc(h.Validating, reviewed) ||
		slices.ContainsFunc(h.Mutating, reviewed)
}

// withoutValues is what is kept of a result that may have values of Secrets: addresses, types and statuses.
func (r *Result) withoutValues(addresses []wire.Operation) Result {
	kept := Result{Exit: r.Exit}
	for i := range addresses {
		kept.Operations = append(kept.Operations, treeOf(addresses[i]))
	}
	if answer, ok := r.Admission.(map[string]any); ok {
		kept.Admission = map[string]any{"allowed": answer["allowed"]}
	}
	if answer, ok := r.HTTP.(map[string]any); ok {
		kept.HTTP = map[string]any{"status": answer["status"]}
	}
	return kept
}
