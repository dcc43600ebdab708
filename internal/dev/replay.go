package dev

import (
	"fmt"
	"path"

	"github.com/shell-operator/shell-operator/internal/run/recording"
)

// compare adds what is different from a recorded run. exit is how the replay ended, env its environment.
func (r *TrialReport) compare(rec *recording.Recording, exit string, env []string) {
	if rec == nil {
		return
	}
	differences := rec.Result.Differences(r.outcome(exit))
	if differences == nil {
		differences = []string{} // a list, also in JSON
	}
	r.Replay = &TrialReplay{Run: rec.Run, Exit: rec.Result.Exit, Differences: differences, MissingVariables: rec.Missing(env)}
	if of := path.Base(rec.Hook); of != path.Base(r.Hook) {
		r.Notes = append(r.Notes, fmt.Sprintf("the recording is of hook %q", rec.Hook))
	}
}
