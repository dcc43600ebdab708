package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one output of a process. Its ends are file descriptors instead of os.Files, which the runtime would register
// with its poller.
type stream struct {
	// read is ours, write is the process's. A closed one is -1.
	read, write int
	lines       lineReader
	bound       *bound
}

// newStream returns a closed stream. Lines go to deliver, a copy of the end goes to keep. All streams of a run have one bound.
func newStream(deliver func([]byte), keep *tail, bound *bound) *stream {
	return &stream{-1, -1, lineReader{deliver: bound.within(deliver), keep: keep, longest: bound.longest()}, bound}
}

// open makes the pipe of a stream.
func (s *stream) open() (err error) {
	s.read, s.write, err = pipe()
	return err
}

// openNamed makes the named pipe of a run. Until the answer it has a writer of ours: so it does not end with the first of several programs
// that open it, and a worker that opens it does not block.
func (s *stream) openNamed(path string) error {
	err := os.NewSyscallError("mkfifo", unix.Mkfifo(path, 0o600))
	for _, end := range []struct {
		fd   *int
		mode int
	}{{&s.read, unix.O_RDONLY}, {&s.write, unix.O_WRONLY}} {
		for err == nil && *end.fd < 0 {
			*end.fd, err = unix.Open(path, end.mode|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			if errors.Is(err, unix.EINTR) {
				err = nil
			}
		}
	}
	return err
}

// deliverTo lets later lines go elsewhere.
func (s *stream) deliverTo(other *stream) {
	s.lines.end()
	s.lines, s.bound = other.lines, other.bound
}

func closeAll(streams []*stream) {
	for _, s := range streams {
		closeEnd(&s.read)
		closeEnd(&s.write)
	}
}

func closeEnd(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}

// ready handles the events of poll: it reads once, and closes the stream at its end.
func (s *stream) ready(events int16) {
	switch {
	case events == 0:
	case events&unix.POLLIN == 0: // empty and without a writer
		s.lines.end()
		closeEnd(&s.read)
	default:
		if s.lines.from(descriptor(s.read)) != nil {
			closeEnd(&s.read)
		}
		if s.bound.over {
			time.Sleep(slowRead)
		}
	}
}

// descriptor reads a file descriptor.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

const (
	// maxLine is the largest length at which a line is split, so that output without line ends does not fill the memory.
	maxLine = 16 << 20
	// The buffer grows with the output: most hooks print little.
	firstRead = 1 << 10
	mostRead  = 64 << 10
)

// lineReader cuts text into lines.
type lineReader struct {
	deliver func([]byte)
	keep    *tail
	// longest is the length at which a line is split.
	longest int
	// buf is the beginning of a line.
	buf []byte
	// last counts the bytes of the last read.
	last int
}

// from reads once. It delivers complete lines without their ends, and the rest when reading fails.
func (l *lineReader) from(r io.Reader) error {
	if len(l.buf) == cap(l.buf) {
		l.buf = append(make([]byte, 0, max(firstRead, 2*cap(l.buf))), l.buf...)
	}
	n, err := r.Read(l.buf[len(l.buf):cap(l.buf)])
	l.last = n
	read := l.buf[len(l.buf) : len(l.buf)+n]
	if l.keep != nil {
		l.keep.add(read)
	}
	seen := len(l.buf) // there is no line end in rest[:seen]
	l.buf = l.buf[:len(l.buf)+n]
	rest := l.buf
	for {
		end := bytes.IndexByte(rest[seen:], '\n')
		if end < 0 {
			break
		}
		l.deliver(rest[:seen+end])
		rest, seen = rest[seen+end+1:], 0
	}
	if len(rest) >= l.longest {
		l.deliver(rest)
		rest = nil
	}
	switch full := len(l.buf) == cap(l.buf); {
	case full && cap(l.buf) < mostRead && len(rest) < len(l.buf):
		l.buf = append(make([]byte, 0, 2*cap(l.buf)), rest...)
	case len(rest) < len(l.buf):
		l.buf = append(l.buf[:0], rest...)
	}
	if err != nil {
		l.end()
	}
	return err
}

// end delivers a last line without an end.
func (l *lineReader) end() {
	if len(l.buf) > 0 {
		l.deliver(l.buf)
	}
	l.buf = nil
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

// text returns what was kept, without surrounding white space. It is called after reading has ended.
func (t *tail) text() string {
	text := strings.TrimSpace(string(t.kept[max(0, len(t.kept)-maxTail):]))
	if t.cut || len(t.kept) > maxTail {
		text = "… " + text
	}
	return text
}
