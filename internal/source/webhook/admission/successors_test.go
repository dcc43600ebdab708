package admission

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestSuccessors runs the files in testdata/successors. Commands are:
//
//	files FILE=NAME,mutating:NAME... ...   a start or a reload with these files and the names of their bindings
//	ready FILE[:NAME]...                   a file, or one of its bindings, can answer
//	stuck FILE...                          a file does not become ready by itself
//	wait 5m                                let time pass
//
// Below the dashes are the validating webhooks that are registered then, each with the file that is called. The time is not real.
func TestSuccessors(t *testing.T) {
	golden.Scripts(t, "testdata/successors/*.txt", func(t *testing.T, script string) (got string) {
		synctest.Test(t, func(t *testing.T) {
			s := &successors{t: t, stop: func() {}}
			got = golden.Blocks(script, s.do, s.registered)
			s.stop()
		})
		return got
	})
}

// Once a webhook that was removed is taken out, it makes no more reads, however short the rest of its time was.
func TestReadsAfterARemovedWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &successors{t: t, stop: func() {}}
		for _, line := range []string{"files a.sh=a b.sh=b", "ready a.sh b.sh", "wait 1s", "files b.sh=b", "wait 299s", "ready b.sh", "wait 1s"} {
			s.do(strings.Fields(line))
		}
		reads := func() int {
			s.server.mu.Lock()
			defer s.server.mu.Unlock()
			return s.server.reads
		}
		before := reads()
		s.do([]string{"wait", "1h"})
		s.stop()
		if n := reads() - before; n > 70 { // one a minute, for lack of a watch
			t.Errorf("%d reads in an hour", n)
		}
	})
}

type successors struct {
	t      *testing.T
	server contested
	stop   func()

	mu           sync.Mutex // guards what follows
	ready, stuck map[string]bool
	changed      chan struct{}
}

func (s *successors) do(words []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch words[0] {
	case "files":
		s.mu.Unlock()
		s.stop()
		s.mu.Lock()
		s.ready, s.stuck, s.changed = map[string]bool{}, map[string]bool{}, make(chan struct{})
		s.start(words[1:])
	case "ready", "stuck":
		for _, file := range words[1:] {
			map[string]map[string]bool{"ready": s.ready, "stuck": s.stuck}[words[0]][file] = true
		}
		close(s.changed)
		s.changed = make(chan struct{})
	case "wait":
		s.mu.Unlock()
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d)
		s.mu.Lock()
	default:
		s.t.Fatalf("unknown command %q", words)
	}
}

func (s *successors) start(files []string) {
	var hooks []*hook.Hook
	for _, file := range files {
		name, bindings, _ := strings.Cut(file, "=")
		h := &hook.Hook{Name: name}
		for binding := range strings.SplitSeq(bindings, ",") {
			if m, ok := strings.CutPrefix(binding, "mutating:"); ok {
				h.Mutating = append(h.Mutating, hook.Admission{Binding: hook.Binding{Name: m}})
			} else if binding != "" {
				h.Validating = append(h.Validating, hook.Admission{Binding: hook.Binding{Name: binding}})
			}
		}
		hooks = append(hooks, h)
	}
	locked := func(f func() bool) bool { s.mu.Lock(); defer s.mu.Unlock(); return f() }
	r, _ := newRegistrar(s.t, RegistrarOptions{Hooks: hooks, Target: keep.Target{Client: s.server.client(s.t), Service: svc,
		Token: func(string) string { return strings.Repeat("0a", 32) },
		Ready: func(h *hook.Hook, a hook.Address) bool {
			return locked(func() bool { return s.ready[h.Name] || s.ready[h.Name+":"+h.At(a).Name] })
		},
		Stuck: func(h *hook.Hook) string {
			if locked(func() bool { return s.stuck[h.Name] }) {
				return "its onStartup run fails"
			}
			return ""
		},
		Changes: []func() <-chan struct{}{func() <-chan struct{} { s.mu.Lock(); defer s.mu.Unlock(); return s.changed }},
		Report: func(_ hook.Kind, _ []string, _ string, err error) {
			if err != nil {
				s.t.Error(err)
			}
		},
	}})
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { r.keepers[0].Object.Run(ctx); close(ended) }()
	s.stop = func() { cancel(); <-ended }
}

func (s *successors) registered() string {
	synctest.Wait()
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	var lines strings.Builder
	if s.server.live != nil {
		for _, w := range s.server.live.Webhooks {
			file := strings.TrimPrefix(*w.ClientConfig.Service.Path, root+"validating/")
			fmt.Fprintln(&lines, w.Name, file[:strings.LastIndex(file, "/"+w.Name)])
		}
	}
	if lines.Len() == 0 {
		return "none\n"
	}
	return lines.String()
}
