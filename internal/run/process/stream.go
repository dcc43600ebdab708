package process

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
)

// stream reads one output of a process line by line.
type stream struct {
	read *os.File
	// write is for the process only, or -1.
	write int
	// done is closed when everything is read.
	done chan struct{}
}

// openStream makes a pipe and reads it until its end. Lines go to deliver, a copy of the end goes to keep.
func openStream(deliver func([]byte), keep *tail) (*stream, error) {
	r, w, err := pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{r, w, make(chan struct{})}
	go func() {
		defer close(s.done)
		readLines(r, deliver, keep)
	}()
	return s, nil
}

// close ends reading, even if somebody keeps the other end open, and waits for it.
func (s *stream) close() {
	s.closeWrite()
	s.read.Close()
	<-s.done
}

func (s *stream) closeWrite() {
	if s.write >= 0 {
		_ = syscall.Close(s.write)
		s.write = -1
	}
}

// maxLine is the length at which a line without end is delivered in pieces, so that a hook that prints
// no line ends at all does not fill the memory.
const maxLine = 16 << 20

// readLines delivers whole lines without their ends, and what is left at the end of r.
func readLines(r io.Reader, deliver func([]byte), keep *tail) {
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		if keep != nil {
			keep.add(buf[len(buf) : len(buf)+n])
		}
		seen := len(buf) // there is no line end in rest[:seen]
		buf = buf[:len(buf)+n]
		rest := buf
		for {
			end := bytes.IndexByte(rest[seen:], '\n')
			if end < 0 {
				break
			}
			deliver(rest[:seen+end])
			rest, seen = rest[seen+end+1:], 0
		}
		if len(rest) >= maxLine || err != nil && len(rest) > 0 {
			deliver(rest)
			rest = nil
		}
		if err != nil {
			return
		}
		if len(rest) < len(buf) {
			buf = append(buf[:0], rest...)
		}
	}
}

// tail keeps the end of what is added.
type tail struct {
	kept []byte
	cut  bool
}

const maxTail = 64 << 10

func (t *tail) add(b []byte) {
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - maxTail; over > maxTail {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
}

// text is what was kept, without white space around it. It is only used after reading has ended.
func (t *tail) text() string {
	text := strings.TrimSpace(string(t.kept[max(0, len(t.kept)-maxTail):]))
	if t.cut || len(t.kept) > maxTail {
		text = "… " + text
	}
	return text
}
