package dev

import (
	"fmt"
	"path"
	"slices"

	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// TrialReport is what came of a run.
type TrialReport struct {
	Hook string `json:"hook"`
	// Contexts is the number of binding contexts.
	Contexts int `json:"contexts"`
	// Runs is the number of runs in a simulated cluster.
	Runs int `json:"runs,omitempty"`
	// Error is why the run failed; empty means that it did not.
	Error string `json:"error,omitempty"`
	// Code names the kind of error, whatever its message.
	Code string `json:"code,omitempty"`
	// Notes are what is worth knowing and no mistake.
	Notes       []string         `json:"notes,omitempty"`
	Seconds     float64          `json:"seconds"`
	CPUSeconds  float64          `json:"cpuSeconds"`
	MaxRSSBytes int64            `json:"maxRSSBytes"`
	Output      []TrialLine      `json:"output"`
	Operations  []TrialOperation `json:"operations"`
	// Applied reports that the operations were applied.
	Applied    bool             `json:"applied"`
	Metrics    []TrialMetric    `json:"metrics"`
	Admission  *TrialAdmission  `json:"admission,omitempty"`
	Conversion *TrialConversion `json:"conversion,omitempty"`
	HTTP       *TrialHTTP       `json:"http,omitempty"`
	Result     *TrialResult     `json:"result,omitempty"`
	Replay     *TrialReplay     `json:"replay,omitempty"`
}

// TrialReplay compares the run with a recorded one.
type TrialReplay struct {
	// Run is the id of the recorded run, Exit how it ended.
	Run  string `json:"run"`
	Exit string `json:"exit"`
	// Differences are those of the results, without the output.
	Differences []string `json:"differences"`
}

// TrialLine is a line of output.
type TrialLine struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// What a hook wrote to its files.
type (
	TrialOperation  = wire.Operation
	TrialMetric     = effect.Metric
	TrialResult     = effect.Result
	TrialAdmission  = wire.Admission
	TrialConversion = effect.ConversionAnswer
	TrialHTTP       = wire.HTTP
)

// compare adds what is different from a recorded run.
func (r *TrialReport) compare(now *simulate.Result) {
	rec := now.Recording
	if rec == nil {
		return
	}
	differences := rec.Result.Differences(r.outcome((&run.Report{Err: now.Err, Usage: now.Usage}).Exit()))
	if differences == nil {
		differences = []string{} // a list, also in JSON
	}
	r.Replay = &TrialReplay{Run: rec.Run, Exit: rec.Result.Exit, Differences: differences}
	if of := path.Base(rec.Hook); of != path.Base(r.Hook) {
		r.Notes = append(r.Notes, fmt.Sprintf("the recording is of hook %q", rec.Hook))
	}
}

// outcome is what of the report is in a recording, too.
func (r *TrialReport) outcome(exit string) recording.Result {
	return recording.ResultOf(exit, r.Operations, r.Metrics, r.Admission, r.Conversion, r.HTTP, r.Result)
}

// add adds what came of runs.
func (r *TrialReport) add(result *simulate.Result) {
	r.Notes = slices.Concat(r.Notes, result.Warnings, result.Notes)
	if r.Contexts = result.Contexts; r.Contexts == 0 {
		r.Runs = result.Runs
	}
	r.Seconds, r.MaxRSSBytes = result.Usage.Wall.Seconds(), result.Usage.MaxRSS
	r.CPUSeconds = (result.Usage.User + result.Usage.System).Seconds()
	for _, p := range slices.Concat(result.Patches, result.Despite) {
		r.Operations = append(r.Operations, wire.FormatPatch(&p))
	}
	r.Metrics = append(r.Metrics, result.Metrics...)
	r.Admission, r.Conversion, r.HTTP, r.Result = result.Admission, result.Conversion, result.HTTP, result.File
}
