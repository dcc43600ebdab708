package event

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestPutBeyondTheLimit(t *testing.T) {
	dir := t.TempDir()
	s := NewSpool(dir, 10_000)
	var kept []Payload
	for i := range 100 {
		kept = append(kept, s.Put(bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	if s.inMemory > 10_000 {
		t.Errorf("%d bytes in memory, the limit is 10000", s.inMemory)
	}
	for i, p := range kept {
		got, err := p.Bytes()
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, 1000)) {
			t.Errorf("payload %d came out as %d bytes, error %v", i, len(got), err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > 0 {
		t.Errorf("the file can be opened by others: %v", names)
	}
}

func TestSpaceComesBack(t *testing.T) {
	s := NewSpool(t.TempDir(), 1000)
	for range 50 {
		s.Put(make([]byte, 500))
	}
	free := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.inMemory == 0 && s.onDisk == 0 && s.end == 0
	}
	for range 1000 {
		if free() {
			return
		}
		runtime.GC() // cleanups run soon after, on a goroutine of the runtime
		runtime.Gosched()
	}
	t.Errorf("still %d bytes in memory, %d payloads on disk", s.inMemory, s.onDisk)
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := NewSpool(dir, 0)
	p := s.Put(make([]byte, 4096))
	if b, err := p.Bytes(); err != nil || len(b) != 4096 {
		t.Fatalf("got %d bytes, error %v", len(b), err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}

func TestSmallPayloadsAreOnlyThemselves(t *testing.T) {
	s := NewSpool(t.TempDir(), 0)
	b := bytes.Repeat([]byte{7}, Small)
	if allocs := testing.AllocsPerRun(100, func() { s.Put(b) }); allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
	if got, err := s.Put(b).Bytes(); err != nil || &got[0] != &b[0] || s.onDisk != 0 {
		t.Errorf("got %v, error %v, %d payloads on disk", got, err, s.onDisk)
	}
}
