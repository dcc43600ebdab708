package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWritePieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list [][]byte
	for i := range 1000 {
		list = append(list, bytes.Repeat([]byte{byte(i)}, i%5*1000+1))
	}
	want := bytes.Join(list, nil)
	if err := (&contextOutput{files: filesIn("dir"), file: openFile(f.Fd())}).WritePieces(list); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
		t.Errorf("%d bytes are not the same as %d", len(got), len(want))
	}
}

// A write that is done only in part goes on where it stopped: a pipe takes what fits.
func TestWritePiecesInParts(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list := [][]byte{bytes.Repeat([]byte("a"), 100_000), []byte("b"), bytes.Repeat([]byte("c"), 200_000)}
	want := bytes.Join(list, nil)
	fd, err := syscall.Dup(int(w.Fd())) // blocking, as files are
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	done := make(chan error, 1)
	go func() {
		err := openFile(fd).writeAll(list)
		done <- errors.Join(err, syscall.Close(fd))
	}()
	var got bytes.Buffer
	if _, err := got.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes are not the same as %d", got.Len(), len(want))
	}
}

// A full disk is an error that names the file.
func TestWritePiecesFails(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full")
	}
	defer f.Close()
	if err := (&contextOutput{files: filesIn("dir"), file: openFile(f.Fd())}).WritePieces([][]byte{[]byte("x")}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
}
