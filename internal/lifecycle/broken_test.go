package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
)

// noRenewal is one of servers that serve nothing.
type noRenewal struct{}

func (noRenewal) Commit(_ <-chan struct{}, retired func()) { retired() }
func (noRenewal) Abort()                                   {}

// quietWatcher watches nothing.
type quietWatcher struct{ *failing }

func (quietWatcher) Mute(*hook.Hook)         {}
func (quietWatcher) Disable(*hook.Hook, int) {}

// brokenWorld is a Lifecycle whose hooks are files. Its clock is not the real one.
type brokenWorld struct {
	*failing
	t        *testing.T
	dir      string
	life     *Lifecycle
	mu       sync.Mutex // guards what follows
	prepared []string
	// refused is the error of the servers for new hooks.
	refused error
}

func newBrokenWorld(t *testing.T) *brokenWorld {
	return &brokenWorld{failing: &failing{enabled: map[string]int{}}, t: t, dir: t.TempDir()}
}

// write writes a hook that counts its calls in a file beside the directory.
func (w *brokenWorld) write(name, text string) {
	w.t.Helper()
	script := "#!/bin/sh\necho call >>'" + w.dir + ".calls-" + name + "'\n" + text + "\n"
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(script), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *brokenWorld) calls(name string) int {
	text, _ := os.ReadFile(w.dir + ".calls-" + name)
	return strings.Count(string(text), "call")
}

func (w *brokenWorld) start() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	leading := make(chan struct{})
	close(leading)
	store := hookset.NewStore(hookset.StoreOptions{Dir: w.t.TempDir(), Log: log})
	load := hookset.Options{Dir: w.dir, Env: os.Environ(), Timeout: time.Minute, Executor: process.New(process.Options{}),
		Filters: jq.NewCompiler(jq.Options{}), Log: log, SkipBroken: true}
	first, err := store.Load(w.t.Context(), load)
	if err != nil {
		w.t.Fatal(err)
	}
	w.life = New(Options{
		Queues: queue.NewSet(queue.Options{}), Runner: run.New(run.Options{Log: log}), Watcher: quietWatcher{w.failing},
		Meter: w.failing, Log: log, Leading: leading, Clock: schedule.New(schedule.Options{}),
		Health: NewHealth(func(*hook.Hook) []string { return nil }),
		Store:  store, Load: load,
		Prepare: func(_ context.Context, hooks []*hook.Hook, leftOut []string) (Renewal, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var names []string
			for _, h := range hooks {
				names = append(names, h.Name)
			}
			w.prepared = append(w.prepared, strings.Join(names, " ")+", without "+strings.Join(leftOut, " "))
			if w.refused != nil {
				var none *servers // as package app has it: a nil pointer in an interface that is not nil
				return none, w.refused
			}
			return noRenewal{}, nil
		},
	}, first)
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.life.Run(ctx) })
	w.t.Cleanup(func() { cancel(); running.Wait(); store.Close() })
}

// names are the active hooks, and with a mark the broken ones: "!" is left out, "~" stays in its previous version.
func (w *brokenWorld) names() string {
	var all []string
	for _, h := range w.life.Hooks() {
		all = append(all, h.Name)
	}
	for _, b := range w.life.Broken() {
		all = append(all, map[bool]string{true: "~", false: "!"}[b.Active]+b.Name)
	}
	return strings.Join(all, " ")
}

func (w *brokenWorld) reload() {
	w.life.post(w.t.Context(), w.life.reload)
	time.Sleep(time.Second)
	synctest.Wait()
}

const fine = `echo '{configVersion: v1, onStartup: 1}'`

// servers can be aborted only if there are any.
type servers struct {
	noRenewal
	aborted bool
}

func (s *servers) Abort() { s.aborted = true }

// A reload whose servers cannot be prepared, because another process has the port, is rejected, and the next one succeeds.
func TestServersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBrokenWorld(t)
		w.write("a", fine)
		w.start()
		refuse := func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = err
		}
		w.write("b", fine)
		refuse(errors.New("the port is in use"))
		w.reload()
		if got := w.names(); got != "a" {
			t.Errorf("hooks without servers are active: %s", got)
		}
		refuse(nil)
		w.reload()
		if got := w.names(); got != "a b" {
			t.Errorf("the next reload has the hooks %s", got)
		}
	})
}

// A broken hook is called again after 1, 2, 4, 8, 10, 10 … minutes, and alone. When it works it joins the others.
func TestBrokenHooksAreCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBrokenWorld(t)
		w.write("a", fine)
		w.write("b", "test -e '"+w.dir+".works' && "+fine)
		w.start()
		synctest.Wait()
		if got := w.names(); got != "a !b" || time.Until(w.life.Broken()[0].Again) != time.Minute {
			t.Fatalf("%s, %+v", got, w.life.Broken())
		}
		for i, delay := range []time.Duration{1, 2, 4, 8, 10, 10} {
			time.Sleep(delay*time.Minute - time.Second)
			synctest.Wait()
			if n := w.calls("b"); n != i+1 {
				t.Errorf("%d calls before attempt %d", n, i+2)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := w.calls("b"); n != i+2 {
				t.Errorf("%d calls after %d minutes", n, delay)
			}
		}
		if err := os.WriteFile(w.dir+".works", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := w.names(); got != "a b" || w.calls("a") != 1 || !slices.Equal(w.prepared, []string{"a b, without "}) {
			t.Errorf("%s, a was called %d times, prepared %q", got, w.calls("a"), w.prepared)
		}
		calls := w.calls("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.calls("b") != calls {
			t.Error("it is called although it works")
		}
	})
}

// A reload that breaks a hook leaves its previous version active; the other changes count. It calls the broken hooks, too.
func TestReloadThatBreaksAHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBrokenWorld(t)
		w.write("a", fine)
		w.write("b", fine)
		w.start()
		synctest.Wait()
		a := w.life.Hooks()[0]
		step := func(want string, prepared ...string) {
			t.Helper()
			w.prepared = nil
			w.reload()
			if got := w.names(); got != want || !slices.Equal(w.prepared, prepared) {
				t.Errorf("%s, want %s, prepared %q", got, want, w.prepared)
			}
		}
		w.write("a", "exit 1")
		w.write("c", fine)
		step("a b c ~a", "a b c, without ")
		if w.life.Hooks()[0] != a || w.life.State(a) == Gone {
			t.Error("the previous version has gone")
		}
		w.write("d", "exit 1")
		step("a b c ~a !d", "a b c, without d")
		step("a b c ~a !d") // nothing has changed
		if err := os.Remove(filepath.Join(w.dir, "d")); err != nil {
			t.Fatal(err)
		}
		step("a b c ~a", "a b c, without ") // its webhooks are removed
		calls := w.calls("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.calls("a") != calls+1 {
			t.Errorf("%d calls within a minute after the reload", w.calls("a")-calls)
		}
		w.write("a", "echo '{configVersion: v1, onStartup: 2}'")
		step("a b c", "a b c, without ")
		if w.life.Hooks()[0] == a {
			t.Error("the previous version is active")
		}
		w.write("a", "exit 1")
		step("a b c ~a")
		if err := os.Remove(filepath.Join(w.dir, "a")); err != nil {
			t.Fatal(err)
		}
		step("b c", "b c, without ")
	})
}
