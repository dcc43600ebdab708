// Package record is what hooks of the chaos tests write down about their runs, and tests read.
//
// Callers may rely on this:
//   - A line is appended at once: who reads sees whole lines, or none, even of a hook that was killed.
//   - A run has two lines: one when the hook has read its contexts, one as the last thing that it does.
package record

import (
	"bytes"
	"encoding/json"
	"os"
)

// Line is one line of a record.
type Line struct {
	// Operator is the start of the operator that has run the hook.
	Operator string
	// Run is the same in both lines of a run.
	Run string
	// At is when the line was written, in nanoseconds since 1970.
	At int64
	// Done marks the second line, which has no contexts.
	Done bool `json:",omitempty"`
	// Act is how the hook is going to misbehave, if it is.
	Act      string    `json:",omitempty"`
	Contexts []Context `json:",omitempty"`
}

// Context is a context of a hook, with objects made short.
type Context struct {
	Binding, Type string
	Group         string             `json:",omitempty"`
	Watch         string             `json:",omitempty"`
	Object        *State             `json:",omitempty"`
	Objects       []State            `json:",omitempty"`
	Snapshots     map[string][]State `json:",omitempty"`
	HasObjects    bool               `json:",omitempty"`
}

// State is one state of one object.
type State struct {
	Namespace, Kind, Name, UID string
	// Count is what the test wrote into the object. It is never used twice.
	Count int
}

// Append writes lines at the end of a file, in one write.
func Append(path string, line Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Parse reads the whole lines of a text, and returns how much of it they are.
func Parse(text []byte) (lines []Line, length int, err error) {
	for {
		end := bytes.IndexByte(text[length:], '\n')
		if end < 0 {
			return lines, length, nil
		}
		var l Line
		if err := json.Unmarshal(text[length:length+end], &l); err != nil {
			return nil, 0, err
		}
		lines = append(lines, l)
		length += end + 1
	}
}
