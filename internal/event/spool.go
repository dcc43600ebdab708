package event

import (
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Small is the length of payloads that a Spool keeps in memory without counting them: an entry for one would take as much.
const Small = 256

const (
	// segmentSize is where a segment ends and the next one begins. On a file system without holes, space returns to the disk by whole
	// segments.
	segmentSize = 64 << 20
	// sparseSize is where a segment ends from which single pages return to the disk.
	sparseSize = 64 << 30
	// page is a block of common file systems.
	page = 4 << 10
	// spoolRetry is the pause after a failed write.
	spoolRetry = 10 * time.Second
)

// Spool bounds the memory of payloads that wait. It is safe for concurrent use.
//
//   - A payload comes out unchanged.
//   - About limit bytes stay in memory. The rest is in segments: private files without a name, which the system removes
//     with the process.
//   - A payload leaves the disk when the garbage collector has found it unreachable; there is nothing to release. The disk holds what
//     waits, in pages. On a file system without holes it holds one segment more, as long as payloads end in about the order in which they
//     came.
//   - If the disk cannot be written, payloads stay in memory, and the log says so.
type Spool struct {
	dir   string
	limit int
	disk  int64
	log   *slog.Logger
	// segmentSize, sparseSize and punch are the package's, unless a test sets others.
	segmentSize, sparseSize int64
	punch                   func(f *os.File, at, n int64) error

	mu sync.Mutex
	// inMemory is the number of bytes that payloads hold in memory, onDisk the number on the disk. They are read without the lock.
	inMemory, onDisk atomic.Int64
	// current is the segment that is being written; nil before the first one.
	current *segment
	// failed is when a write failed; zero after one that has succeeded. Then refused is false.
	failed  time.Time
	refused atomic.Bool
}

// segment is a file with payloads. Its fields are guarded by Spool.mu.
type segment struct {
	file *os.File
	end  int64
	// payloads in the file, those that are being written included.
	payloads int
	// size is where it ends. sparse: pages return to the disk.
	size   int64
	sparse bool
	// shared counts the payloads that begin or end in a page, and are not alone in it.
	shared map[int64]int
}

// NewSpool returns a Spool that keeps limit bytes in memory and the rest in files below dir. It is full with more than disk bytes there; 0
// means never.
func NewSpool(dir string, limit, disk int, log *slog.Logger) *Spool {
	return &Spool{dir: dir, limit: limit, disk: int64(disk), log: log, segmentSize: segmentSize, sparseSize: sparseSize, punch: punch}
}

type counted struct{ Memory }

type spooled struct {
	segment *segment
	at      int64
	size    int
}

func (p *spooled) Len() int { return p.size }

func (p *spooled) Bytes() ([]byte, error) {
	b := make([]byte, p.size)
	_, err := p.segment.file.ReadAt(b, p.at)
	runtime.KeepAlive(p) // its segment stays open until here
	return b, err
}

// Put keeps b, which the caller no longer changes.
func (s *Spool) Put(b []byte) Payload {
	if len(b) <= Small {
		return Memory(b)
	}
	s.mu.Lock()
	if s.Memory()+len(b) > s.limit && time.Since(s.failed) > spoolRetry {
		if p, err := s.write(b); err == nil {
			return p
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	p := &counted{Memory(b)}
	s.inMemory.Add(int64(len(b)))
	runtime.AddCleanup(p, s.freeMemory, len(b))
	return p
}

// Full reports that more waits on the disk than there should, or in memory, because the disk cannot be written. Put takes it nevertheless:
// the caller has to make that superfluous which can be.
func (s *Spool) Full() bool { return s.disk > 0 && (s.onDisk.Load() > s.disk || s.Refused()) }

// Refused reports that payloads beyond the limit stay in memory, because the disk cannot be written.
func (s *Spool) Refused() bool { return s.refused.Load() && s.Memory() > s.limit }

// Memory is the number of bytes that wait in memory.
func (s *Spool) Memory() int { return int(s.inMemory.Load()) }

// OnDisk is the number of bytes that wait on the disk.
func (s *Spool) OnDisk() int { return int(s.onDisk.Load()) }

// write appends b to the current segment. It unlocks s, so that a slow disk delays no other caller.
func (s *Spool) write(b []byte) (*spooled, error) {
	seg, at, err := s.reserve(int64(len(b)))
	s.mu.Unlock()
	if err == nil {
		_, err = seg.file.WriteAt(b, at)
	}
	s.mu.Lock()
	first := s.failed.IsZero()
	s.failed = time.Time{}
	s.refused.Store(err != nil)
	if err != nil {
		s.failed = time.Now()
		if seg != nil {
			s.release(seg, at, int64(len(b)))
		}
	}
	s.mu.Unlock()
	switch {
	case err != nil && first:
		s.log.Error("Cannot write waiting objects to the disk, they stay in memory", "path", s.dir, "error", err.Error(), "hint",
			"make room below --tmp-dir")
	case err == nil && !first:
		s.log.Info("Waiting objects are written to the disk again", "path", s.dir)
	}
	if err != nil {
		return nil, err
	}
	p := &spooled{seg, at, len(b)}
	runtime.AddCleanup(p, s.freeDisk, *p)
	return p, nil
}

// reserve finds room for n bytes.
func (s *Spool) reserve(n int64) (seg *segment, at int64, err error) {
	seg = s.current
	if seg == nil || seg.end > 0 && seg.end+n > seg.size {
		if seg, err = s.newSegment(); err != nil {
			return nil, 0, err
		}
		s.current = seg
	}
	at = seg.end
	seg.end += n
	seg.payloads++
	s.onDisk.Add(n)
	first, last := pages(at, n)
	seg.shared[first]++
	if last > first {
		seg.shared[last]++
	}
	return seg, at, nil
}

// pages returns the first and the last page of n bytes.
func pages(at, n int64) (first, last int64) { return at / page, (at + n - 1) / page }

func (s *Spool) newSegment() (*segment, error) {
	f, err := os.CreateTemp(s.dir, "spool-") // mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	seg := &segment{file: f, size: s.segmentSize, shared: map[int64]int{}}
	if s.punch(f, 0, page) == nil {
		seg.size, seg.sparse = s.sparseSize, true
	}
	return seg, nil
}

// release ends one payload of a segment, and the segment with its last payload. It returns the pages that are free now; n is 0 for
// none.
func (s *Spool) release(seg *segment, at, n int64) (from, length int64) {
	if seg.sparse {
		s.onDisk.Add(-n)
	}
	if seg.payloads--; seg.payloads == 0 {
		if !seg.sparse {
			s.onDisk.Add(-seg.end)
		}
		if seg == s.current {
			s.current = nil
		}
		_ = seg.file.Close() // the file has no name, so this removes it
		return 0, 0
	}
	first, last := pages(at, n)
	from, to := first, last+1
	for _, edge := range slices.Compact([]int64{first, last}) {
		if seg.shared[edge]--; seg.shared[edge] == 0 {
			delete(seg.shared, edge)
		}
		if seg.shared[edge] > 0 || edge >= seg.end/page { // others use it, or it gets more
			if edge == first {
				from++
			} else {
				to--
			}
		}
	}
	if !seg.sparse || to <= from {
		return 0, 0
	}
	return from * page, (to - from) * page
}

func (s *Spool) freeMemory(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inMemory.Add(-int64(n))
}

// freeDisk does the I/O without the lock: these pages are free.
func (s *Spool) freeDisk(p spooled) {
	s.mu.Lock()
	at, n := s.release(p.segment, p.at, int64(p.size))
	s.mu.Unlock()
	if n > 0 {
		_ = s.punch(p.segment.file, at, n)
	}
}
