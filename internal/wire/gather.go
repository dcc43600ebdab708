package wire

import (
	"bufio"
	"io"
)

// Gatherer writes many pieces, one after the other, without copying them first. Contexts of many objects are written
// that way where the file can do it.
type Gatherer interface {
	WritePieces(pieces [][]byte) error
}

// output takes the text of contexts. It keeps the first error, which Flush returns.
type output interface {
	io.Writer
	io.StringWriter
	// share is Write of bytes that do not change before Flush.
	share(p []byte)
	Flush() error
}

func newOutput(w io.Writer) output {
	if to, ok := w.(Gatherer); ok {
		return &gather{to: to}
	}
	return copying{bufio.NewWriterSize(w, outputBuffer)}
}

const (
	outputBuffer = 64 << 10
	// firstBuffer is enough for the few objects that most contexts hold.
	firstBuffer = 2 << 10
	// mostPieces is below what systems take at a time. What waits is bounded, because it may come from a disk.
	mostPieces  = 1000
	mostWaiting = 1 << 20
	// worthSharing is the length from which a piece of its own costs less than a copy.
	worthSharing = 512
)

// copying copies everything.
type copying struct{ *bufio.Writer }

func (c copying) share(p []byte) { _, _ = c.Write(p) }

// gather copies what is short, and hands on what is long as it is.
type gather struct {
	to     Gatherer
	pieces [][]byte
	// own holds copies, or the last of them; from is where the piece begins that is not among the pieces yet.
	own     []byte
	from    int
	waiting int
	err     error
}

func (g *gather) Write(p []byte) (int, error) { return copyTo(g, p) }

func (g *gather) WriteString(s string) (int, error) { return copyTo(g, s) }

func copyTo[Text []byte | string](g *gather, text Text) (int, error) {
	n := len(text)
	for len(text) > 0 && g.err == nil {
		if len(g.own) == cap(g.own) {
			g.makeRoom()
		}
		fits := min(len(text), cap(g.own)-len(g.own))
		g.own = append(g.own, text[:fits]...)
		text = text[fits:]
	}
	return n, g.err
}

// makeRoom continues in a larger buffer, or, when there is none, writes what waits.
func (g *gather) makeRoom() {
	if cap(g.own) == outputBuffer {
		_ = g.Flush()
		return
	}
	g.end()
	g.own, g.from = make([]byte, 0, min(max(firstBuffer, 8*cap(g.own)), outputBuffer)), 0
}

func (g *gather) share(p []byte) {
	if len(p) < worthSharing {
		_, _ = g.Write(p)
		return
	}
	g.end()
	g.pieces = append(g.pieces, p)
	g.waiting += len(p)
	if len(g.pieces)+2 > mostPieces || g.waiting > mostWaiting {
		_ = g.Flush()
	}
}

// end makes a piece of what has been copied since the last one.
func (g *gather) end() {
	if g.from < len(g.own) {
		g.pieces = append(g.pieces, g.own[g.from:])
		g.from = len(g.own)
	}
}

func (g *gather) Flush() error {
	g.end()
	if g.err == nil && len(g.pieces) > 0 {
		g.err = g.to.WritePieces(g.pieces)
	}
	clear(g.pieces)
	g.pieces, g.own, g.from, g.waiting = g.pieces[:0], g.own[:0], 0, 0
	return g.err
}
