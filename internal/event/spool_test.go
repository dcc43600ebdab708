package event

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var quiet = slog.New(slog.DiscardHandler)

// eventually runs the garbage collector, whose cleanups run soon afterwards, until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatal(what)
}

// testSpool ends segments after a number of bytes. Without holes it is as on a file system that has none.
func testSpool(dir string, limit int, segment int64, holes bool) *Spool {
	s := NewSpool(dir, limit, 0, quiet)
	s.segmentSize, s.sparseSize = segment, segment
	if !holes {
		s.punch = func(*os.File, int64, int64) error { return errors.ErrUnsupported }
	}
	return s
}

// spoolFiles are the sizes of the files below dir that the process has open. They have no name any more.
func spoolFiles(t *testing.T, dir string) (n int, size int64) {
	t.Helper()
	links, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc")
	}
	for _, link := range links {
		path := filepath.Join("/proc/self/fd", link.Name())
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, dir) {
			continue
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("a file has the mode %v", info.Mode())
		}
		n++
		size += info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	return n, size
}

func TestPutBeyondTheLimit(t *testing.T) {
	dir := t.TempDir()
	s := testSpool(dir, 10_000, 5000, true)
	var kept []Payload
	for i := range 100 {
		kept = append(kept, s.Put(bytes.Repeat([]byte{byte(i)}, 1000)))
	}
	if s.Memory() > 10_000 {
		t.Errorf("%d bytes in memory, the limit is 10000", s.Memory())
	}
	for i, p := range kept {
		got, err := p.Bytes()
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, 1000)) {
			t.Errorf("payload %d came out as %d bytes, error %v", i, len(got), err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > 0 {
		t.Errorf("files have names: %v", names)
	}
	if n, _ := spoolFiles(t, dir); n != 18 {
		t.Errorf("%d segments for 90 payloads, want 18", n)
	}
	runtime.KeepAlive(kept)
}

// Under steady overload something always waits. The disk has no more than what waits and, without holes, two segments.
func TestSpaceReturnsWhileSomethingWaits(t *testing.T) {
	for _, holes := range []bool{true, false} {
		t.Run(fmt.Sprint("holes ", holes), func(t *testing.T) {
			const size, waiting = 9 << 10, 64
			dir := t.TempDir()
			segment, most := int64(sparseSize), int64(waiting*size+2*page)
			if !holes {
				segment = 16 * size
				most = waiting*size + 2*segment
			}
			s := testSpool(dir, 0, segment, holes)
			var queue []Payload
			for i := range 3000 {
				queue = append(queue, s.Put(bytes.Repeat([]byte{byte(i)}, size)))
				if len(queue) > waiting {
					got, err := queue[0].Bytes()
					if err != nil || got[0] != byte(i-waiting) || got[size-1] != byte(i-waiting) {
						t.Fatalf("payload %d came out as %.5v, error %v", i-waiting, got, err)
					}
					queue = append([]Payload(nil), queue[1:]...)
				}
				if i%200 == 199 {
					skipWithoutHoles(t, s, holes)
					eventually(t, "the disk fills up", func() bool {
						_, n := spoolFiles(t, dir)
						return n <= most
					})
				}
			}
			runtime.KeepAlive(queue)
		})
	}
}

// skipWithoutHoles ends a test that needs holes on a file system that has none.
func skipWithoutHoles(t *testing.T, s *Spool, holes bool) {
	s.mu.Lock()
	sparse := s.current.sparse
	s.mu.Unlock()
	if holes && !sparse {
		t.Skip("the file system has no holes")
	}
}

// A payload that outlives all around it keeps its own pages on the disk, and no file of its own.
func TestLongestPayloadsKeepOnlyThemselves(t *testing.T) {
	const small, large, kept = 1000, 100 << 10, 50
	dir := t.TempDir()
	s := testSpool(dir, 0, sparseSize, true)
	var all, around []Payload
	for i := range kept {
		around = append(around, s.Put(make([]byte, large)))
		all = append(all, s.Put(bytes.Repeat([]byte{byte(i)}, small)))
		around = append(around, s.Put(make([]byte, small)), s.Put(make([]byte, large)))
	}
	skipWithoutHoles(t, s, true)
	clear(around)
	eventually(t, "the disk keeps more", func() bool {
		files, n := spoolFiles(t, dir)
		return files == 1 && n <= kept*2*page
	})
	for i, p := range all {
		if got, err := p.Bytes(); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, small)) {
			t.Errorf("payload %d came out as %.5v, error %v", i, got, err)
		}
	}
	runtime.KeepAlive(around)
}

// TestRandomPayloads compares what comes out with what came in, while payloads of all sizes leave in any order.
func TestRandomPayloads(t *testing.T) {
	for seed := range uint64(20) {
		dir := t.TempDir()
		s := testSpool(dir, 0, 1<<20, true)
		random := rand.New(rand.NewPCG(seed, 0))
		waiting := map[int]Payload{}
		text := func(i, size int) []byte { return bytes.Repeat([]byte{byte(i%255 + 1)}, size) }
		for i := range 500 {
			waiting[i] = s.Put(text(i, Small+1+int(math.Exp(random.Float64()*11))))
			for len(waiting) > 40 {
				for old := range waiting { // in any order
					delete(waiting, old)
					break
				}
			}
			if i%50 == 0 {
				runtime.GC()
			}
		}
		for i, p := range waiting {
			if got, err := p.Bytes(); err != nil || !bytes.Equal(got, text(i, p.Len())) {
				t.Fatalf("seed %d: payload %d of %d bytes came out as %.5v, error %v", seed, i, p.Len(), got, err)
			}
		}
	}
}

// A spool is full as long as more waits on the disk than it should hold.
func TestFullSpool(t *testing.T) {
	for _, holes := range []bool{true, false} {
		s := testSpool(t.TempDir(), 0, 1<<20, holes)
		s.disk = 10_000
		var waiting []Payload
		for range 10 {
			waiting = append(waiting, s.Put(make([]byte, 1000)))
		}
		if s.Full() || s.OnDisk() != 10_000 {
			t.Errorf("holes %t: full with %d bytes", holes, s.OnDisk())
		}
		waiting = append(waiting, s.Put(make([]byte, 300)))
		if !s.Full() {
			t.Errorf("holes %t: not full with %d bytes", holes, s.OnDisk())
		}
		runtime.KeepAlive(waiting)
		waiting = nil
		eventually(t, "it stays full", func() bool { return s.OnDisk() == 0 && !s.Full() })
		_ = waiting
	}
}

// Payloads that stay in memory because the disk cannot be written make the spool full, as long as they are more than belong there.
func TestFullMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := NewSpool(dir, 10_000, 1<<30, quiet)
	few := s.Put(make([]byte, 9_000))
	if s.Full() {
		t.Error("full before anything was written")
	}
	many := s.Put(make([]byte, 9_000))
	if !s.Full() || !s.Refused() || s.OnDisk() != 0 {
		t.Errorf("with %d bytes in memory and %d on the disk it is not full", s.Memory(), s.OnDisk())
	}
	runtime.KeepAlive(many)
	many = nil
	eventually(t, "it stays full", func() bool { return !s.Full() && !s.Refused() })
	_, _ = few, many
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.failed = s.failed.Add(-spoolRetry)
	written := s.Put(make([]byte, 9_000))
	if s.Full() || s.OnDisk() != 9_000 {
		t.Errorf("with a disk %d bytes are on it", s.OnDisk())
	}
	if unlimited := NewSpool(dir+"-too", 0, 0, quiet); unlimited.Put(make([]byte, 1000)).Len() != 1000 || unlimited.Full() {
		t.Error("without a limit it is full")
	}
	runtime.KeepAlive(few)
	runtime.KeepAlive(written)
}

func TestManyWriters(t *testing.T) {
	s := testSpool(t.TempDir(), 5000, 10_000, true)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 200 {
				want := bytes.Repeat([]byte{byte(i)}, 500)
				if got, err := s.Put(want).Bytes(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %.5v, error %v", got, err)
				}
			}
		})
	}
	writers.Wait()
}

// A disk that cannot be written is one record. Payloads stay in memory meanwhile.
func TestDiskThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	var log bytes.Buffer
	s := NewSpool(dir, 0, 0, slog.New(slog.NewTextHandler(&log, nil)))
	for range 5 {
		p := s.Put(make([]byte, 4096))
		if b, err := p.Bytes(); err != nil || len(b) != 4096 {
			t.Fatalf("got %d bytes, error %v", len(b), err)
		}
		s.failed = s.failed.Add(-spoolRetry) // it tries again
	}
	if n := strings.Count(log.String(), "stay in memory"); n != 1 || !strings.Contains(log.String(), "hint=") {
		t.Errorf("%d records: %s", n, log.String())
	}
	s.Put(make([]byte, 4096))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.Put(make([]byte, 4096)); s.current != nil { // each attempt may cost time
		t.Error("it was retried immediately")
	}
	s.failed = s.failed.Add(-spoolRetry)
	s.Put(make([]byte, 4096))
	if !strings.Contains(log.String(), "written to the disk again") || !s.failed.IsZero() {
		t.Errorf("the log is: %s", log.String())
	}
}

func TestSmallPayloadsAreOnlyThemselves(t *testing.T) {
	s := NewSpool(t.TempDir(), 0, 0, quiet)
	b := bytes.Repeat([]byte{7}, Small)
	if allocs := testing.AllocsPerRun(100, func() { s.Put(b) }); allocs > 1 {
		t.Errorf("%v allocations", allocs)
	}
	if got, err := s.Put(b).Bytes(); err != nil || &got[0] != &b[0] || s.current != nil {
		t.Errorf("got %v, error %v, segment %v", got, err, s.current)
	}
}
