package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

var (
	// patching has the kind that a script patches: in a document, by the shell library or by the Python library.
	patching = regexp.MustCompile(`(?:operation["']?\s*[:=]\s*["']?(?:MergePatch|JSONPatch|JQPatch)\b[^}]{0,200}?\bkind["']?\s*[:=]\s*["']?` +
		`|kubernetes::patch\s+(?:-n\s+\S+\s+)?["']?|(?:merge|json|jq)_patch\(\s*["'])(\w+)`)
	// conditional is in a line by which a hook may decide whether it patches; the line of the config call does not count.
	conditional = regexp.MustCompile(`\b(?:if|elif|case|select|test|unless)\b|&&|\|\||\[\[`)
	configCall  = regexp.MustCompile(`^\s*#|--config|__name__`)
)

// wakesItself finds a hook that patches the kind of a binding whatever it has received, and is run again by that.
func wakesItself(s script.Source, h *hook.Hook) (found []Finding) {
	for line := range bytes.Lines(s.Text) {
		if conditional.Match(line) && !configCall.Match(line) {
			return nil
		}
	}
	for i := range h.Kubernetes {
		k := &h.Kubernetes[i]
		if !k.Modified || k.JQFilter != "" || k.IgnoreOwn {
			continue
		}
		for _, m := range patching.FindAllSubmatchIndex(s.Text, -1) {
			kind := string(s.Text[m[2]:m[3]])
			end := bytes.IndexAny(s.Text[m[3]:], "}\n")
			others := len(k.Names) > 0 && !slices.ContainsFunc(append(k.Names, "$"), func(name string) bool {
				return bytes.Contains(s.Text[m[0]:m[3]+max(end, 0)], []byte(name))
			})
			if (strings.EqualFold(kind, k.Kind) || strings.EqualFold(kind, k.Kind+"s")) && !others {
				found = append(found, finding(s, 1+bytes.Count(s.Text[:m[0]], []byte("\n")), 0, Warning,
					fmt.Sprintf("the hook is run again by its own patch: binding %q delivers each change of a %s", k.Name, k.Kind),
					"set ownChanges: ignore in the binding, or a jqFilter of what the hook reads"))
				break
			}
		}
	}
	return found
}
