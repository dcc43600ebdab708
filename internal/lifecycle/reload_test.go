package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
)

// noRenewal is one of servers that serve nothing.
type noRenewal struct{}

func (noRenewal) Commit(retired func()) { retired() }
func (noRenewal) Holds(*hook.Hook) bool { return false }
func (noRenewal) Abort()                {}

// quietWatcher watches nothing.
type quietWatcher struct{ *failing }

func (quietWatcher) Mute(*hook.Hook)         {}
func (quietWatcher) Disable(*hook.Hook, int) {}

// fileWorld is a Lifecycle whose hooks are files. Its clock is not the real one.
type fileWorld struct {
	*failing
	t    *testing.T
	dir  string
	life *Lifecycle
	mu   sync.Mutex // guards what follows
	// refused is the error of the servers for new hooks.
	refused error
}

func newFileWorld(t *testing.T) *fileWorld {
	return &fileWorld{failing: &failing{enabled: map[string]int{}}, t: t, dir: t.TempDir()}
}

// write writes a hook.
func (w *fileWorld) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fileWorld) start() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	leading := make(chan struct{})
	close(leading)
	store := hookset.NewStore(hookset.StoreOptions{Dir: w.t.TempDir(), Log: log})
	load := hookset.Options{Dir: w.dir, Env: os.Environ(), Timeout: time.Minute, Executor: process.New(process.Options{}),
		Filters: jq.NewCompiler(jq.Options{}), Log: log}
	first, err := store.Load(w.t.Context(), load)
	if err != nil {
		w.t.Fatal(err)
	}
	w.life = New(Options{
		Queues: queue.NewSet(queue.Options{}), Runner: run.New(run.Options{Log: log}), Pending: pending.New(pending.Options{}),
		Watcher: quietWatcher{w.failing},
		Meter:   w.failing, Log: log, Leading: leading, Clock: schedule.New(schedule.Options{}),
		Health: NewHealth(func(*hook.Hook) []string { return nil }),
		Store:  store, Load: load,
		Prepare: func(context.Context, []*hook.Hook) (Renewal, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
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

// names are the active hooks.
func (w *fileWorld) names() string {
	var all []string
	for _, h := range w.life.Hooks() {
		all = append(all, h.Name)
	}
	return strings.Join(all, " ")
}

func (w *fileWorld) reload() {
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
		w := newFileWorld(t)
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

// A reload with a broken hook is rejected, and the rest goes on with the old set. That is shown until a reload is not rejected.
func TestBrokenHookRejectsTheReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFileWorld(t)
		w.write("a", fine)
		w.start()
		w.write("b", "echo secret; exit 1")
		w.write("c", fine)
		w.reload()
		time.Sleep(24 * time.Hour)
		if got, why := w.names(), w.life.o.Health.Rejected(); got != "a" ||
			len(why) != 1 || why["b"].Text != "the call with --config failed: exit status 1" {
			t.Errorf("the hooks are %s, rejected %v", got, why)
		}
		w.write("b", fine)
		w.reload()
		if got, why := w.names(), w.life.o.Health.Rejected(); got != "a b c" || len(why) > 0 {
			t.Errorf("the hooks are %s, rejected %v", got, why)
		}
	})
}
