package dev

import (
	"fmt"
	"path"

	"github.com/shell-operator/shell-operator/internal/run/recording"
)

// recorded returns the recording and its binding contexts, or nil and the text itself if it is not one.
func recorded(text []byte) (*recording.Recording, []byte, error) {
	if !recording.Is(text) {
		return nil, text, nil
	}
	rec, err := recording.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the recording: %w", err)
	}
	return &rec, rec.Contexts, nil
}

// attemptOf is that of a recording.
func attemptOf(rec *recording.Recording) int {
	if rec == nil {
		return 1
	}
	return max(1, rec.Attempt)
}

// compare adds what is different from a recorded run. exit is how the replay ended, env its environment.
func (r *TrialReport) compare(rec *recording.Recording, exit string, env []string) {
	if rec == nil {
		return
	}
	differences := rec.Differences(r.outcome(exit))
	if differences == nil {
		differences = []string{} // a list, also in JSON
	}
	r.Replay = &TrialReplay{Run: rec.Run, Exit: rec.Result.Exit, Differences: differences, MissingVariables: rec.Missing(env)}
	if of := path.Base(rec.Hook); of != path.Base(r.Hook) {
		r.Notes = append(r.Notes, fmt.Sprintf("the recording is of hook %q", rec.Hook))
	}
	if rec.WithoutTexts {
		r.Notes = append(r.Notes,
			"the recorded run had Secrets or answered an HTTP request: its output, messages, labels of metrics and bodies are not recorded, "+
				"and not compared")
	}
	if rec.Secrets {
		r.Notes = append(r.Notes, "the recording contains values of Secrets: do not share it")
	}
}
