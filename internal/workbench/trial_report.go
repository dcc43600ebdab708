package workbench

import "github.com/shell-operator/shell-operator/internal/run/recording"

// TrialReport is what came of a run.
type TrialReport struct {
	Hook string `json:"hook"`
	// Contexts is the number of binding contexts.
	Contexts int `json:"contexts"`
	// Runs is the number of runs in a simulated cluster.
	Runs int `json:"runs,omitempty"`
	// Error is why the run failed; empty means that it did not.
	Error string `json:"error,omitempty"`
	// Notes are what is worth knowing and no mistake.
	Notes       []string         `json:"notes,omitempty"`
	Seconds     float64          `json:"seconds"`
	CPUSeconds  float64          `json:"cpuSeconds"`
	MaxRSSBytes int64            `json:"maxRSSBytes"`
	Output      []TrialLine      `json:"output"`
	Operations  []TrialOperation `json:"operations"`
	// Diffs are what the operations change.
	Diffs []TrialDiff `json:"diffs,omitempty"`
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
	// MissingVariables are names of variables that the recorded run had.
	MissingVariables []string `json:"missingVariables,omitempty"`
}

// TrialLine is a line of output.
type TrialLine struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// What a hook wrote to its files, in the form of recordings.
type (
	TrialOperation  = recording.Operation
	TrialMetric     = recording.Metric
	TrialResult     = recording.File
	TrialAdmission  = recording.Admission
	TrialConversion = recording.Conversion
	TrialHTTP       = recording.HTTP
)

// outcome is what of the report is in a recording, too.
func (r *TrialReport) outcome(exit string) recording.Result {
	return recording.ResultOf(exit, r.Operations, r.Metrics, r.Admission, r.Conversion, r.HTTP, r.Result)
}
