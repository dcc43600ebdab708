package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// fakeWrites are bindings whose streams are "0", "1" and so on, up to a version each. Deletions are shown at the version in their name.
type fakeWrites struct {
	mu    sync.Mutex
	up    [2]uint64
	waits []fakeWait
}

type fakeWait struct {
	index int
	all   []effect.Write
	shown chan struct{}
}

func (f *fakeWrites) Delivers(*hook.Hook, effect.Answered) []effect.Write {
	return []effect.Write{{Stream: "0", Version: 1}}
}

func (f *fakeWrites) Own(_ *hook.Hook, _, _, _, _ string, _ func(int) bool) (effect.Known, func(before, after string)) {
	return effect.Known{Version: "7"}, nil
}

func (f *fakeWrites) lacks(index int, w effect.Write) bool {
	v := w.Version
	if v == 0 {
		fmt.Sscan(w.Name, &v)
	}
	return w.Stream == fmt.Sprint(index) && f.up[index] < v
}

func (f *fakeWrites) Processed(_ *hook.Hook, index int, all iter.Seq[effect.Write]) (effect.Write, func() <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range all {
		if f.lacks(index, w) {
			return w, func() <-chan struct{} {
				f.mu.Lock()
				defer f.mu.Unlock()
				wait := fakeWait{index, slices.Collect(all), make(chan struct{})}
				f.waits = append(f.waits, wait)
				return wait.shown
			}
		}
	}
	return effect.Write{}, nil
}

func (f *fakeWrites) at(index int) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up[index]
}

// progress shows everything up to a version.
func (f *fakeWrites) progress(index int, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[index] = version
	f.waits = slices.DeleteFunc(f.waits, func(w fakeWait) bool {
		over := !slices.ContainsFunc(w.all, func(one effect.Write) bool { return f.lacks(w.index, one) })
		if over {
			close(w.shown)
		}
		return over
	})
}

// ownStage is a runner with a hook with two bindings. Its first schedule includes the snapshot of the first, its second both snapshots.
type ownStage struct {
	*run.Runner
	*Writes
	fake *fakeWrites
	hook *hook.Hook
	late int
}

func newOwnStage() *ownStage {
	s := &ownStage{fake: &fakeWrites{}}
	s.Writes = New(s.fake, func(string) { s.late++ }, slog.New(slog.DiscardHandler))
	s.Runner = run.New(run.Options{Companions: []run.Companion{s.Writes}})
	s.reload()
	return s
}

// reload makes another version of the hook.
func (s *ownStage) reload() {
	s.hook = &hook.Hook{Name: "h", Kubernetes: make([]hook.Kubernetes, 2), Schedules: make([]hook.Schedule, 2)}
	s.hook.Schedules[0].Includes, s.hook.Schedules[1].Includes = []int{0}, []int{0, 1}
}

func (s *ownStage) task(schedule int, key string) *run.Task {
	t := s.Task(event.Event{Type: event.Tick, Hook: s.hook, Index: schedule})
	t.Starting(key, 0, 0)
	return t
}

func (s *ownStage) write(key string, w ...effect.Write) {
	s.note(s.task(0, key), w)
}

// begin returns how long a task waits.
func (s *ownStage) begin(t *run.Task) time.Duration {
	began := time.Now()
	for {
		var unshown *unshownError
		if err := s.Await(t); !errors.As(err, &unshown) {
			return time.Since(began)
		}
		signal, most := unshown.Until()
		select {
		case <-signal:
		case <-time.After(most):
		}
	}
}

// TestOwnWritesAgainstModel compares the waits of runs with lists of all that was ever written.
func TestOwnWritesAgainstModel(t *testing.T) {
	type step struct {
		Kind          string
		Lane          string
		Index, After  int
		Schedule, Gap int
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				Kind:     rapid.SampledFrom([]string{"write", "write", "delete", "begin", "begin", "progress", "progress", "reload"}).Draw(t, "kind"),
				Lane:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "lane"),
				Index:    rapid.IntRange(0, 1).Draw(t, "index"),
				Schedule: rapid.IntRange(0, 1).Draw(t, "schedule"),
				After:    rapid.SampledFrom([]int{0, 0, 2, 7}).Draw(t, "after"), // seconds after which both streams have come up, 0 for never
			}
		}), 1, 40).Draw(rt, "steps")
		problem := ""
		synctest.Test(t, func(*testing.T) {
			s := newOwnStage()
			version, written := uint64(0), map[string][2]uint64{} // the highest of each lane and binding
			inVain := 0
			late := map[int]bool{}
			for i, st := range steps {
				for index := range late { // each step but a change of the streams looks whether they have come up
					if max(written["a"][index], written["b"][index]) <= s.fake.at(index) && (st.Kind == "write" || st.Kind == "delete") {
						late[index] = false
					}
				}
				switch st.Kind {
				case "write", "delete":
					version++
					w := effect.Write{Stream: fmt.Sprint(st.Index), Version: version, Name: fmt.Sprint(version), UID: fmt.Sprint("uid", version)}
					if st.Kind == "delete" {
						w.Version = 0
					}
					s.write(st.Lane, w)
					of := written[st.Lane]
					of[st.Index] = version
					written[st.Lane] = of
				case "progress":
					s.fake.progress(st.Index, version)
				case "reload":
					s.reload()
				case "begin":
					var want time.Duration
					var waits []int
					for index := range st.Schedule + 1 {
						if max(written["a"][index], written["b"][index]) <= s.fake.at(index) {
							late[index] = false
						}
						if !late[index] && written[st.Lane][index] > s.fake.at(index) {
							waits = append(waits, index)
						}
					}
					if len(waits) > 0 {
						if want = bound; st.After > 0 && st.After < 5 {
							want = time.Duration(st.After) * time.Second
						} else {
							inVain++
							for _, index := range waits {
								late[index] = true
							}
						}
					}
					if st.After > 0 {
						up := version
						time.AfterFunc(time.Duration(st.After)*time.Second, func() { s.fake.progress(0, up); s.fake.progress(1, up) })
					}
					if got := s.begin(s.task(st.Schedule, st.Lane)); got != want || s.late != inVain {
						problem = fmt.Sprintf("step %d waited for %s, want %s; %d waits were in vain, want %d", i, got, want, s.late, inVain)
						return
					}
					time.Sleep(10 * time.Second) // until the streams have come up
				}
			}
		})
		if problem != "" {
			rt.Fatalf("%s: %+v", problem, steps)
		}
	})
}

// Requeued and retried events contain objects of their binding, other tasks objects of included snapshots.
func TestShownBindings(t *testing.T) {
	s := newOwnStage()
	change := func(watch event.Watch) *run.Task {
		return s.Task(event.Event{Type: event.Change, Hook: s.hook, Index: 1, Watch: watch})
	}
	retried := s.Task(event.Event{Type: event.Change, Hook: s.hook, Index: 1, Watch: event.Modified, Retried: true})
	for _, row := range []struct {
		name string
		task *run.Task
		want map[int]bool
	}{
		{"an event", change(event.Modified), map[int]bool{}},
		{"a requeue", change(event.Requeued), map[int]bool{1: true}},
		{"a retried event", retried, map[int]bool{1: true}},
		{"a tick", s.task(1, ""), map[int]bool{0: true, 1: true}},
		{"a Synchronization", s.Task(event.Event{Type: event.Synchronization, Hook: s.hook, Index: 1}), map[int]bool{1: true}},
	} {
		if got := row.task.Shows(); fmt.Sprint(got) != fmt.Sprint(row.want) {
			t.Errorf("%s shows %v, want %v", row.name, got, row.want)
		}
	}
}

// executor is a hook whose runs change an object.
type executor struct{ do func(ctx context.Context) }

func (e executor) Execute(ctx context.Context, _ process.Invocation) (process.Result, error) {
	e.do(ctx)
	return process.Result{}, errors.New("no output")
}

// A run for a request has no lane, so nothing waits for what it writes; its changes are the hook's own, too.
func TestWritesOfARequest(t *testing.T) {
	s, known := newOwnStage(), effect.Known{}
	s.hook.Kubernetes[0].IgnoreOwn, s.hook.HTTP = true, make([]hook.HTTP, 1)
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	r := run.New(run.Options{Workspace: files, Log: slog.New(slog.DiscardHandler), Companions: []run.Companion{s.Writes},
		Executor: executor{func(ctx context.Context) {
			effect.Report(ctx, effect.Answered{})
			known, _ = effect.Own(ctx, "", "", "n", "a")
		}}})
	r.Add([]*hook.Hook{s.hook})
	_, err = r.Answer(t.Context(), run.Review{Request: &event.Request{},
		Review: event.Review{Event: event.Event{Type: event.HTTP, Hook: s.hook}}})
	if err == nil || known.Version != "7" || len(s.of) > 0 {
		t.Errorf("known %v, noted %v: %v", known, s.of, err)
	}
}

// The lanes of a keyed queue are forgotten when their writes are shown.
func TestOwnWritesAreForgotten(t *testing.T) {
	s := newOwnStage()
	for i := range 10_000 {
		s.write(fmt.Sprint(i), effect.Write{Stream: "0", Version: uint64(i + 1)})
		s.fake.progress(0, uint64(i+1))
	}
	if n := len(s.of["h"].lanes); n > 2*sweepEvery {
		t.Errorf("%d lanes are remembered", n)
	}
	for i := range 10_000 {
		s.write("a", effect.Write{Stream: "0", UID: fmt.Sprint(i), Name: "99999"})
	}
	if n := len(s.of["h"].lanes[lane{"", "a"}]); n > maxGone+1 {
		t.Errorf("%d deletions are remembered", n)
	}
	if s.Rejected([]string{"h"}); len(s.of) != 0 {
		t.Errorf("a hook that is gone is remembered")
	}
}
