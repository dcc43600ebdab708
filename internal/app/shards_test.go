package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// A replica with leader election beside owners of shards says what it waits for, and is ready: they have prepared what requests need.
func TestLeaderBesideShards(t *testing.T) {
	var log bytes.Buffer
	op := &operator{log: slog.New(slog.NewTextHandler(&log, nil)), health: &lifecycle.Health{}}
	for range 2 {
		op.leaderChanged(replica.State{Holders: []string{""}, Rival: "a", Waits: `the end of "a"`})
	}
	op.leaderChanged(replica.State{Holders: []string{""}})
	op.leaderChanged(replica.State{Holders: []string{"b"}, Serving: true})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	want := []string{"waits=\"the end of", "No replica runs the hooks", "This replica runs the hooks"}
	if len(lines) != len(want) {
		t.Fatalf("the log is\n%s", &log)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("%s, want %s", lines[i], want[i])
		}
	}
}

// A replica that cannot read the Leases says so: its hooks do not wait for one another.
func TestUnreadLeases(t *testing.T) {
	if got, hint := newTestShards(2).elsewhere(&hook.Hook{}); !strings.Contains(got, "not read the Leases") ||
		!strings.Contains(hint, "status") {
		t.Errorf("%q, %q", got, hint)
	}
	if got, _ := newTestShards(0).elsewhere(&hook.Hook{}); got != "" {
		t.Errorf("without shards: %q", got)
	}
}

func newTestShards(count int) *shards {
	s := newShards(count, lifecycle.NewHealth(nil), slog.New(slog.DiscardHandler))
	s.division = "1a2b3c4d"
	return s
}

// What a replica shows of itself, and where it says that a hook runs.
func TestShardRoles(t *testing.T) {
	once := &hook.Hook{Name: "once"}
	parts := &hook.Hook{Name: "parts", Settings: hook.Settings{ShardBy: shard.ByObject}}
	for _, test := range []struct {
		name        string
		state       replica.State
		note        string
		standby     bool
		once, parts string
	}{
		{"an owner of shard 0", replica.State{Serving: true, Shard: 0, Holders: []string{"a", "b"}},
			"shard 0/2 of division 1a2b3c4d: this replica serves it",
			false, "", ""},
		{"an owner of another shard", replica.State{Serving: true, Shard: 1, Holders: []string{"a", "b"}}, "this replica serves it", false,
			"it runs on shard 0", ""},
		{"a new Lease", replica.State{Shard: 1, Holders: []string{"a", ""}, Waits: "the end of 15s"},
			"shard 1/2 of division 1a2b3c4d: this replica waits",
			true, `"a" runs the hook`, "this replica waits for the end of 15s"},
		{"a new Lease of shard 0, for which requests have to wait", replica.State{Shard: 0, Holders: []string{"", "b"}, Waits: "the end of 15s"},
			"this replica waits", false, "this replica waits for the end of 15s", "this replica waits for the end of 15s"},
		{"a standby", replica.State{Shard: -1, Holders: []string{"a", "b"}, Waits: "a Lease"},
			"standby of division 1a2b3c4d: this replica waits for a Lease",
			true, `"a" runs the hook`, "this replica waits for a Lease"},
		{"a standby beside another division", replica.State{Shard: -1, Holders: []string{"", ""}, Waits: "the end of x", Rival: "x"},
			"waits for the end of x",
			true, "waits for the end of x", "waits for the end of x"},
		{"a standby before anything is prepared", replica.State{Shard: -1, Holders: []string{"", ""}, Waits: "a Lease"}, "standby", false,
			"standby", "standby"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTestShards(2)
			s.changed(test.state)
			if test.state.Serving {
				s.own.Store(&shard.Shard{Index: test.state.Shard, Count: 2})
			}
			if note, standby := s.role(test.state); !strings.Contains(note, test.note) || standby != test.standby {
				t.Errorf("%q, standby %t", note, standby)
			}
			for h, want := range map[*hook.Hook]string{once: test.once, parts: test.parts} {
				if got, _ := s.elsewhere(h); !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("%s runs elsewhere: %q, want %q", h.Name, got, want)
				}
			}
			got := map[string]int{}
			s.info(func(n int, labels ...string) { got[strings.Join(labels, " ")] = n })
			want := map[string]int{"0 2 1a2b3c4d": 0, "1 2 1a2b3c4d": 0}
			if test.state.Serving {
				want[[]string{"0 2 1a2b3c4d", "1 2 1a2b3c4d"}[test.state.Shard]] = 1
			}
			if !maps.Equal(got, want) {
				t.Errorf("shard_info is %v", got)
			}
		})
	}
}

// Events of an object of another shard are elsewhere, and an object that is not seen may be.
func TestElsewhereOf(t *testing.T) {
	s := newTestShards(3)
	if got := s.elsewhereOf(2); got != "" {
		t.Errorf("before the Leases were read: %q", got)
	}
	s.changed(replica.State{Serving: true, Shard: 1, Holders: []string{"a", "b", ""}})
	s.own.Store(&shard.Shard{Index: 1, Count: 3})
	for index, want := range map[int]string{watch.Everywhere: "", 1: "", 2: "it belongs to shard 2/3", watch.Unknown: "another shard than 1/3",
		0: `it belongs to shard 0/3, which "a" was serving`} {
		if got := s.elsewhereOf(index); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%d: %q, want %q", index, got, want)
		}
	}
}

// Shards without an owner are a trouble.
func TestShardsWithoutOwner(t *testing.T) {
	s := newTestShards(3)
	const selector = "shell-operator/shards=x"
	if got := s.vacancy(nil, selector); got != nil {
		t.Errorf("without one: %v", got)
	}
	const few = "shards 1, 2 of 3, division 1a2b3c4d: have no owner: are there 3 live replicas, and one more as a standby? The owners: " +
		"kubectl get leases -l " + selector
	if got := s.vacancy([]int{1, 2}, selector); len(got) != 1 || got[0].Kind != debug.InLease || got[0].Notice || got[0].String() != few {
		t.Errorf("on shard 0: %v", got)
	}
}

// A reload that changes shardBy, or which hooks have it, ends the replica; no other one does.
func TestRedivided(t *testing.T) {
	with := func(name string, by shard.By) *hook.Hook {
		return &hook.Hook{Name: name, Settings: hook.Settings{ShardBy: by}}
	}
	first := []*hook.Hook{with("a", shard.ByObject), with("b", shard.None)}
	for _, test := range []struct {
		name  string
		count int
		hooks []*hook.Hook
		ends  bool
	}{
		{"the same hooks", 2, first, false},
		{"another one on shard 0", 2, append(first[:2:2], with("c", shard.None)), false},
		{"another shardBy", 2, []*hook.Hook{with("a", shard.ByNamespace), with("b", shard.None)}, true},
		{"another divided hook", 2, append(first[:2:2], with("c", shard.ByObject)), true},
		{"none is divided any more", 2, []*hook.Hook{with("b", shard.None)}, true},
		{"without shards", 0, []*hook.Hook{with("b", shard.None)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			op := &operator{log: slog.New(slog.DiscardHandler), shards: newTestShards(test.count)}
			op.redivided(first)
			ctx, end := context.WithCancelCause(t.Context())
			op.divided = end
			op.redivided(test.hooks)
			if ended := errors.Is(context.Cause(ctx), errDivided); ended != test.ends {
				t.Errorf("it ends: %t", ended)
			}
		})
	}
}
