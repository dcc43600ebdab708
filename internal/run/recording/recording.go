// Package recording keeps the input and the result of runs, but of a run that may have Secrets only what it was about.
//
// Callers may rely on this:
//   - A run with a Secret in its contexts, its review, its response or its operations, sent or not, is recorded without values: with the
//     addresses and types of its events and operations, its status and time, and without contexts, output, errors and messages. So is a run
//     that answers an HTTP request, and one that called the trimmed kubectl on Secrets. Nothing is searched for values.
//   - Such a recording has the reason, and is not replayed.
//   - One recording is written at a time: a run that is to be recorded waits.
//   - A run that is not recorded costs a comparison.
//   - The files of a Recorder are bounded together, and are removed by Close.
//
// Not covered: secrets that a hook fetches itself, and those in objects of other kinds.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Version is the version of the format. Older versions are read, newer ones rejected.
const Version = 1

// Recording is the input and the result of a run.
type Recording struct {
	Version int    `json:"version"`
	Hook    string `json:"hook"`
	// Run is the id of the run: the id of the task and the attempt.
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	// Ended is the time of its end.
	Ended time.Time `json:"ended,omitzero"`
	// WithoutValues is why the recording has no contexts and no values; it is empty if it has them.
	WithoutValues string `json:"withoutValues,omitempty"`
	// Events are what the run was for.
	Events []string `json:"events,omitempty"`
	// Contexts is the binding context file.
	Contexts json.RawMessage `json:"contexts,omitempty"`
	Result   Result          `json:"result"`
}

// Result is the result of a run.
type Result struct {
	// Exit is the end of the process or of the run: "exit status 1".
	Exit  string `json:"exit"`
	Error string `json:"error,omitempty"`
	// Output is the end of what the hook printed.
	Output []string `json:"output,omitempty"`
	Outcome
}

// Outcome is what the hook wrote to its files. The values are trees of JSON.
type Outcome struct {
	Operations []any `json:"operations,omitempty"`
	Metrics    []any `json:"metrics,omitempty"`
	Admission  any   `json:"admission,omitempty"`
	Conversion any   `json:"conversion,omitempty"`
	HTTP       any   `json:"http,omitempty"`
	File       any   `json:"result,omitempty"`
}

// Is reports whether a JSON text is a recording. Binding contexts, the other thing that a hook can be run with, are not.
func Is(text []byte) bool {
	var head struct{ Version, Contexts, Result json.RawMessage }
	return json.Unmarshal(text, &head) == nil && head.Version != nil && (head.Contexts != nil || head.Result != nil)
}

// Parse reads a recording.
func Parse(text []byte) (r Recording, err error) {
	var head struct{ Version int }
	err = json.Unmarshal(text, &head)
	switch {
	case err != nil && !json.Valid(text):
		return r, fmt.Errorf("it is no recording: %w", err)
	case err != nil, head.Version < 1:
		return r, errors.New("it is no recording: its version must be a number from 1")
	case head.Version > Version:
		return r, fmt.Errorf("the recording has version %d, this program reads versions up to %d: use the shell-operator that made it, "+
			"or a newer one", head.Version, Version)
	}
	if err := unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("it is no recording: %w", err)
	}
	if r.Contexts == nil && r.WithoutValues == "" {
		return r, errors.New("it is no recording: it has no contexts")
	}
	return r, nil
}

// Open returns a recording and its binding contexts, or nil and the text itself if it is not one.
func Open(text []byte) (*Recording, []byte, error) {
	if !Is(text) {
		return nil, text, nil
	}
	r, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot use the recording: %w", err)
	}
	if r.WithoutValues != "" {
		return nil, nil, fmt.Errorf("the recording of run %s has no binding contexts, so it cannot be replayed: %s", r.Run, r.WithoutValues)
	}
	return &r, r.Contexts, nil
}

// FirstAttempt is the attempt of a recorded run; without a recording the first.
func (r *Recording) FirstAttempt() int {
	if r == nil {
		return 1
	}
	return max(1, r.Attempt)
}
