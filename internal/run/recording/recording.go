// Package recording keeps the input and the result of runs, without the values of Secrets.
//
// Callers may rely on this:
//   - A value of a Secret in the contexts, and whatever a hook writes about a Secret, is replaced in its place and in every text of the
//     recording: plain, in base64 of up to three layers, escaped in JSON, and line by line. The replacement of a value is the same within a
//     process, and another one in every other process.
//   - A replacement of base64 is base64, so a replayed hook that decodes it works.
//   - Of HTTP runs, no header, no body and no value of the query is kept.
//   - A run that is not recorded costs a comparison.
//   - The files of a Recorder are bounded together, and are removed when they are too old and by Close.
//
// Not covered: values that a hook transforms in another way or fetches itself, values as keys, and values under four bytes outside of their
// place.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Version is that of the format. Older versions are read, newer ones rejected.
const Version = 1

// Recording is the input and the result of a run.
type Recording struct {
	Version int    `json:"version"`
	Hook    string `json:"hook"`
	// Run is the id of the run: that of the task and the attempt.
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	// Secrets reports that nothing is redacted.
	Secrets bool `json:"secrets,omitempty"`
	// Variables are the names of the hook's variables, without those of the protocol.
	Variables []string `json:"variables,omitempty"`
	Result    Result   `json:"result"`
	// Contexts is the binding context file. It is the last field, because it is written without being held a second time.
	Contexts json.RawMessage `json:"contexts"`
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

// Outcome is what the hook wrote to its files. The values are trees of JSON: a redacted number is a text.
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
	var head struct{ Version, Contexts json.RawMessage }
	return json.Unmarshal(text, &head) == nil && head.Version != nil && head.Contexts != nil
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
		return r, fmt.Errorf("the recording has version %d, this program reads versions up to %d: use the shell-operator that made it, or a newer one", head.Version, Version)
	}
	if err := unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("it is no recording: %w", err)
	}
	if r.Contexts == nil {
		return r, errors.New("it is no recording: it has no contexts")
	}
	return r, nil
}
