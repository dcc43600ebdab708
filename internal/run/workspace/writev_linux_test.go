package workspace

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// A write that is done only in part continues where it stopped: a pipe takes what fits.
func TestWritePieces(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	list := [][]byte{bytes.Repeat([]byte("a"), 100_000), []byte("b"), bytes.Repeat([]byte("c"), 200_000)}
	want := bytes.Join(list, nil)
	done := make(chan error, 1)
	go func() { done <- errors.Join((&contextFile{w}).WritePieces(list), w.Close()) }()
	got, err := io.ReadAll(r)
	must(t, err, <-done)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes are not the same as %d", len(got), len(want))
	}
}

// A full disk is an error that names the file.
func TestWritePiecesFails(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer f.Close()
	if err := (&contextFile{f}).WritePieces([][]byte{[]byte("x")}); !errors.Is(err, syscall.ENOSPC) ||
		err.Error() != "writev /dev/full: no space left on device" {
		t.Errorf("error %v", err)
	}
}
