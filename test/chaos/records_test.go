package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/shell-operator/shell-operator/test/chaos/record"
)

// records reads what hooks write down, as they do.
type records struct {
	dir string

	mu    sync.Mutex
	lines map[string][]record.Line // by hook
	read  map[string]int
	// more is closed and replaced whenever there are more lines.
	more chan struct{}
	err  error
}

func followRecords(t testing.TB, dir string, hooks []string) *records {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Add(dir); err != nil {
		t.Fatal(err)
	}
	r := &records{dir: dir, lines: map[string][]record.Line{}, read: map[string]int{}, more: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		for e := range watcher.Events {
			name, isRecord := strings.CutSuffix(filepath.Base(e.Name), ".record")
			if isRecord && slices.Contains(hooks, name) {
				r.readMore(name)
			}
		}
	})
	t.Cleanup(func() {
		_ = watcher.Close()
		reading.Wait()
	})
	return r
}

func (r *records) readMore(hook string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(r.dir, hook+".record"))
	if err == nil && len(text) > r.read[hook] {
		var lines []record.Line
		var n int
		lines, n, err = record.Parse(text[r.read[hook]:])
		r.lines[hook] = append(r.lines[hook], lines...)
		r.read[hook] += n
	}
	if err != nil {
		r.err = err
	}
	close(r.more)
	r.more = make(chan struct{})
}

// until waits until done returns true for the lines of a hook, and reports whether it did.
func (r *records) until(patience time.Duration, hook string, done func([]record.Line) bool) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		lines, more := r.lines[hook], r.more
		r.mu.Unlock()
		if done(lines) {
			return true
		}
		select {
		case <-more:
		case <-late.C:
			return false
		}
	}
}

// of returns all lines of a hook.
func (r *records) of(hook string) []record.Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines[hook])
}

// sessions sorts a hook's lines into starts of the operator.
func sessions(lines []record.Line, starts []start) []session {
	var all []session
	for _, s := range starts {
		one := session{started: s.at}
		where := map[string]int{}
		for _, l := range lines {
			switch {
			case l.Operator != s.name:
			case l.Done:
				one.runs[where[l.Run]].done = true
			default:
				where[l.Run] = len(one.runs)
				one.runs = append(one.runs, run{at: time.Unix(0, l.At), contexts: ours(l.Contexts)})
			}
		}
		all = append(all, one)
	}
	return all
}

// ours leaves out what the test has not made: the API server's certificate, which every namespace gets.
func ours(contexts []record.Context) (kept []record.Context) {
	for _, c := range contexts {
		if c.Object != nil && c.Object.Count == 0 && c.Object.Name == rootCertificate {
			continue
		}
		c.Objects = slices.DeleteFunc(slices.Clone(c.Objects), func(s record.State) bool { return s.Name == rootCertificate })
		kept = append(kept, c)
	}
	return kept
}

const rootCertificate = "kube-root-ca.crt"

// refused takes those runs for failed that ended well, but of which the operator could not do what they handed back: the
// next run begins with the same. Counts are unique, so two good runs never begin alike.
func refused(all []session) []session {
	for _, s := range all {
		for i := range s.runs[:max(0, len(s.runs)-1)] {
			if again(s.runs[i].contexts, s.runs[i+1].contexts) {
				s.runs[i].done = false
			}
		}
	}
	return all
}

func again(before, after []record.Context) bool {
	if len(before) == 0 || len(after) < len(before) {
		return false
	}
	for i, c := range before {
		same := c.Binding == after[i].Binding && c.Type == after[i].Type && c.Watch == after[i].Watch
		if !same || c.Object != nil && (after[i].Object == nil || *c.Object != *after[i].Object) {
			return false
		}
	}
	return true
}

// start is one start of the operator.
type start struct {
	name string
	at   time.Time
}
