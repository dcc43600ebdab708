// Package conformance runs the checklists of the protocol against a real control plane: one file in testdata for each
// point.
package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test/heads"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
)

func TestConformance(t *testing.T) { conformance(t, "testdata", scripts.Process) }

func conformance(t *testing.T, dir string, hook scripts.Recorder) {
	scripts.Run(t, scripts.Options{
		Dir: dir, Hook: hook,
		Setup: func(w *scripts.World, e *testscript.Env) error {
			if hook.Config == nil {
				e.Defer(func() { checkHeads(w) })
			}
			return nil
		},
		Commands: map[string]scripts.Command{"shown": shownCommand, "request": requestCommand},
	})
}

// checkHeads compares the heads of all contexts that the last operator has delivered with what the shell library reads of them with jq.
func checkHeads(w *scripts.World) {
	if w.Operator == nil {
		return
	}
	var all []json.RawMessage
	for _, r := range w.Operator.Records() {
		var contexts []json.RawMessage
		if text, ok := strings.CutPrefix(r.Fields["msg"], "run "); ok && json.Unmarshal([]byte(text), &contexts) == nil {
			all = append(all, contexts...)
		}
	}
	if text, err := json.Marshal(all); err == nil && len(all) > 0 {
		heads.Check(w.T, text)
	}
}
