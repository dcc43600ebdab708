package lint

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/script"
)

// keeps is how scripts write the key of the result file: with the libraries, or by themselves.
var keeps = regexp.MustCompile(`\bkeepFinalizer\b|\bkeep_finalizer\b`)

// keepsFinalizer finds a hook that keeps finalizers although no binding has one.
func keepsFinalizer(s script.Source, h *hook.Hook) []Finding {
	at := keeps.FindIndex(s.Text)
	if at == nil || slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" }) {
		return nil
	}
	line, column := 1+bytes.Count(s.Text[:at[0]], []byte("\n")), at[0]-bytes.LastIndexByte(s.Text[:at[0]], '\n')
	return []Finding{finding(s, line, column, Warning, "keepFinalizer has no effect: no binding of the hook has a finalizer",
		"set finalizer on the binding whose objects are cleaned up")}
}
