package wire

import "io"

// buffer is a bufio.Writer that begins small: most contexts are short, and 64 KiB for each run would be most of its garbage.
// It keeps the first error, which Flush returns.
type buffer struct {
	to      io.Writer
	pending []byte
	err     error
}

const (
	firstBuffer = 2 << 10
	maxBuffer   = 64 << 10
)

func newBuffer(to io.Writer) *buffer { return &buffer{to: to, pending: make([]byte, 0, firstBuffer)} }

func (b *buffer) Write(p []byte) (int, error) {
	if b.reserve(len(p)) {
		b.pending = append(b.pending, p...)
	} else if b.err == nil {
		_, b.err = b.to.Write(p)
	}
	return len(p), b.err
}

func (b *buffer) WriteString(s string) (int, error) {
	if b.reserve(len(s)) {
		b.pending = append(b.pending, s...)
	} else if b.err == nil {
		_, b.err = io.WriteString(b.to, s)
	}
	return len(s), b.err
}

// reserve flushes the buffer if n more bytes do not fit, and reports whether they do then.
func (b *buffer) reserve(n int) bool {
	if len(b.pending)+n > maxBuffer {
		_ = b.Flush()
	}
	return n <= maxBuffer
}

func (b *buffer) Flush() error {
	if b.err == nil && len(b.pending) > 0 {
		_, b.err = b.to.Write(b.pending)
	}
	b.pending = b.pending[:0]
	return b.err
}
