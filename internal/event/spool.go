package event

import (
	"os"
	"runtime"
	"sync"
)

// Spool bounds the memory of payloads that wait. It is safe for concurrent use.
//
//   - A payload comes out unchanged.
//   - About limit bytes stay in memory; the rest is in one private file that has no name. Payloads of up to Small bytes
//     stay in memory and do not count: an entry for one would take as much.
//   - Space is returned when the garbage collector finds a payload unreachable; there is nothing to release.
//   - If the file cannot be written, payloads stay in memory.
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

// NewSpool returns a Spool that keeps limit bytes in memory and the rest in a file below dir.
func NewSpool(dir string, limit int) *Spool { return &Spool{dir: dir, limit: limit} }

type counted struct{ Memory }

type spooled struct {
	file *os.File
	at   int64
	size int
}

func (d *spooled) Len() int { return d.size }

func (d *spooled) Bytes() ([]byte, error) {
	b := make([]byte, d.size)
	_, err := d.file.ReadAt(b, d.at)
	return b, err
}

// Put keeps b, which the caller does not change any more.
func (s *Spool) Put(b []byte) Payload {
	if len(b) <= Small {
		return Memory(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inMemory+len(b) > s.limit {
		if p, err := s.write(b); err == nil {
			return p
		}
	}
	p := &counted{Memory(b)}
	s.inMemory += len(b)
	runtime.AddCleanup(p, s.freeMemory, len(b))
	return p
}

func (s *Spool) write(b []byte) (*spooled, error) {
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
	p := &spooled{s.file, s.end, len(b)}
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
