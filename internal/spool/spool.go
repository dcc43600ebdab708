// Package spool bounds the memory of what waits.
//
// Callers may rely on this:
//   - What was put in comes out unchanged, whenever, and by any number of goroutines.
//   - About Limit bytes stay in memory; the rest waits in one private file that nobody else can open. Payloads of up to
//     event.Small bytes stay in memory and do not count: to know where such a one lies, and when it has gone, takes as much.
//   - Space is given back when the garbage collector finds that nobody holds a payload any more, so there
//     is nothing to release and nothing to release twice.
//   - Where the file cannot be written, payloads stay in memory: slower is better than lost.
package spool

import (
	"os"
	"runtime"
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
)

// Spool keeps payloads. It is safe for concurrent use.
type Spool struct {
	dir   string
	limit int

	mu sync.Mutex
	// inMemory is the number of bytes that payloads hold in memory.
	inMemory int
	// file is nil until it is needed. onDisk payloads lie in its first end bytes.
	file   *os.File
	onDisk int
	end    int64
}

// New returns a Spool that keeps limit bytes in memory and the rest in a file below dir.
func New(dir string, limit int) *Spool { return &Spool{dir: dir, limit: limit} }

type inMemory struct{ event.Memory }

type onDisk struct {
	file *os.File
	at   int64
	size int
}

func (d *onDisk) Len() int { return d.size }

func (d *onDisk) Bytes() ([]byte, error) {
	b := make([]byte, d.size)
	_, err := d.file.ReadAt(b, d.at)
	return b, err
}

// Put keeps b, which the caller does not change any more.
func (s *Spool) Put(b []byte) event.Payload {
	if len(b) <= event.Small {
		return event.Memory(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inMemory+len(b) > s.limit {
		if p, err := s.write(b); err == nil {
			return p
		}
	}
	p := &inMemory{event.Memory(b)}
	s.inMemory += len(b)
	runtime.AddCleanup(p, s.freeMemory, len(b))
	return p
}

func (s *Spool) write(b []byte) (*onDisk, error) {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "spool-") // mode 0600
		if err != nil {
			return nil, err
		}
		if err := os.Remove(f.Name()); err != nil {
			f.Close()
			return nil, err
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return nil, err
	}
	p := &onDisk{s.file, s.end, len(b)}
	s.end += int64(len(b))
	s.onDisk++
	runtime.AddCleanup(p, s.freeDisk, struct{}{})
	return p, nil
}

func (s *Spool) freeMemory(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inMemory -= n
}

func (s *Spool) freeDisk(struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onDisk--; s.onDisk == 0 {
		// Nothing of the file is in use. Should it stay long, a later payload overwrites it.
		s.end = 0
		_ = s.file.Truncate(0)
	}
}
