package process

import (
	"bytes"
	"strconv"
)

// talk is the state of the protocol with a worker. It has no socket and no clock.
//
//	starting ──ready──► idle ──send──► serving ──answer──► idle
//
// Everything else that the worker sends is a breach.
type talk struct {
	state talkState
	// run is the id of the run that is being served.
	run string
	// buf has the bytes that were received and not used.
	buf []byte
}

type talkState int

const (
	talkStarting talkState = iota
	talkIdle
	talkServing
)

// word is a message of a worker.
type word int

const (
	// silence: nothing complete.
	silence word = iota
	ready
	answer
	breach
)

// maxAnswer is the length of a line on the socket.
const maxAnswer = 4 << 10

// next returns the next word in what was received, the status of an answer, and what is wrong with a breach.
func (t *talk) next(received []byte) (w word, status int, wrong string) {
	t.buf = append(t.buf, received...)
	if len(t.buf) == 0 {
		return silence, 0, ""
	}
	if t.state == talkIdle {
		return breach, 0, "it sent something while it served no run"
	}
	line, rest, complete := bytes.Cut(t.buf, []byte("\n"))
	switch {
	case len(line) > maxAnswer:
		return breach, 0, "it sent a line of more than 4 KiB"
	case !complete:
		return silence, 0, ""
	case t.state == talkStarting:
		if string(line) != "ready" {
			return breach, 0, `its first line is not "ready"`
		}
		t.state, t.buf = talkIdle, rest
		return ready, 0, ""
	}
	run, number, _ := bytes.Cut(line, []byte(" "))
	status, err := strconv.Atoi(string(number))
	switch {
	case err != nil || status < 0 || status > 255 || len(number) > 3:
		return breach, 0, "it sent a line that is no answer: the id of the run and its exit status"
	case string(run) != t.run:
		return breach, 0, "it answered another run"
	}
	t.state, t.run, t.buf = talkIdle, "", rest
	return answer, status, ""
}

// send begins a run.
func (t *talk) send(run string) { t.state, t.run = talkServing, run }

// sent is the beginning of what was received, for an error.
func (t *talk) sent() string {
	const most = 100
	if len(t.buf) > most {
		return string(t.buf[:most]) + "…"
	}
	return string(t.buf)
}
