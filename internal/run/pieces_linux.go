package run

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/shell-operator/shell-operator/internal/wire"
)

var _ wire.Gatherer = &contextOutput{}

// WritePieces writes all pieces, many in one system call, straight from where they are. It changes the list, not what the
// pieces hold.
func (c *contextOutput) WritePieces(pieces [][]byte) error {
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	if err := c.open(size); err != nil {
		return err
	}
	return c.wrote(int64(size), "writev", c.file.writeAll(pieces))
}

func (f openFile) writeAll(pieces [][]byte) error {
	for len(pieces) > 0 {
		n, err := unix.Writev(int(f), pieces)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n > 0 {
			pieces[0] = pieces[0][n:]
		}
	}
	return nil
}
