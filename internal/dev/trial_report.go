package dev

import (
	"fmt"
	"path"
	"slices"

	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// TrialReport is what came of a run, or of several.
type TrialReport struct {
	Hook string `json:"hook"`
	Runs int    `json:"runs"`
	// Error is why the run failed; empty means that it did not.
	Error string `json:"error,omitempty"`
	// Code names the kind of error, whatever its message.
	Code string `json:"code,omitempty"`
	// Notes are what is worth knowing and no mistake.
	Notes []string `json:"notes,omitempty"`
	// Seconds, CPUSeconds and MaxRSSBytes are what the last run took.
	Seconds     float64     `json:"seconds"`
	CPUSeconds  float64     `json:"cpuSeconds"`
	MaxRSSBytes int64       `json:"maxRSSBytes"`
	Output      []TrialLine `json:"output"`
	// Outcome is what the hook wrote to its files.
	recording.Outcome
	Replay *TrialReplay `json:"replay,omitempty"`
}

// TrialReplay compares the run with a recorded one.
type TrialReplay struct {
	// Run is the id of the recorded run, Exit how it ended.
	Run  string `json:"run"`
	Exit string `json:"exit"`
	// Differences are the lines of both results, without the output: "- " begins lines of the recorded result, "+ " lines of this one.
	Differences []string `json:"differences"`
}

// TrialLine is a line of output.
type TrialLine struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// add adds what came of runs.
func (r *TrialReport) add(result *simulate.Result) {
	r.Notes, r.Runs = slices.Concat(r.Notes, result.Warnings, result.Notes), result.Runs
	r.Seconds, r.MaxRSSBytes = result.Usage.Wall.Seconds(), result.Usage.MaxRSS
	r.CPUSeconds = (result.Usage.User + result.Usage.System).Seconds()
	var operations []wire.Operation
	for _, p := range slices.Concat(result.Patches, result.Despite) {
		operations = append(operations, wire.FormatPatch(&p))
	}
	now := recording.ResultOf((&run.Report{Err: result.Err, Usage: result.Usage}).Exit(), operations, result.Metrics, result.Admission,
		result.Conversion, result.HTTP, result.File)
	r.Outcome = now.Outcome
	rec := result.Recording
	if rec == nil {
		return
	}
	before, after := recording.Compared(rec.Result, now)
	differences := append([]string{}, testfile.Diff(before, after)...) // a list, also in JSON
	r.Replay = &TrialReplay{Run: rec.Run, Exit: rec.Result.Exit, Differences: differences}
	if of := path.Base(rec.Hook); of != path.Base(r.Hook) {
		r.Notes = append(r.Notes, fmt.Sprintf("the recording is of hook %q", rec.Hook))
	}
}
