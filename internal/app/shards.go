package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// shards are the share of this replica in the work.
type shards struct {
	// count is their number; 0 without shards.
	count int
	// division is the division of the work by the hooks that were loaded first: it is the same until the end.
	division string
	// own is the shard of this replica, from the time when taken is closed. Until then it waits for one. Taken is nil without shards.
	own    atomic.Pointer[shard.Shard]
	taken  chan struct{}
	state  atomic.Pointer[replica.State]
	health *lifecycle.Health
	log    *slog.Logger
}

func newShards(count int, health *lifecycle.Health, log *slog.Logger) *shards {
	s := &shards{count: count, health: health, log: log}
	first := shard.Shard{}
	if count > 0 {
		first = shard.Shard{Index: shard.Waiting, Count: count}
		s.taken = make(chan struct{})
	}
	s.own.Store(&first)
	return s
}

// Shard returns the shard of this replica, without shards the one that has everything.
func (s *shards) Shard() shard.Shard { return *s.own.Load() }

// Joins implements run.Companion.
func (s *shards) Joins(h *hook.Hook, answers bool) bool {
	return !answers && h.Settings.ShardBy != shard.None
}

// Begin names the shard to a hook that runs on every one.
func (s *shards) Begin(ctx context.Context, a *run.Attempt) context.Context {
	if own := s.Shard(); own.Divided() {
		a.Vars = append(a.Vars, "HOOK_SHARD="+strconv.Itoa(own.Index), "HOOK_SHARDS="+strconv.Itoa(own.Count))
	}
	return ctx
}

// first reports whether this replica has what is done once for all shards.
func (s *shards) first() bool { return s.Shard().Index == 0 }

// divisionOf returns the division of a set of hooks.
func (s *shards) divisionOf(hooks []*hook.Hook) string {
	by := map[string]shard.By{}
	for _, h := range hooks {
		if h.Settings.ShardBy != shard.None {
			by[h.Name] = h.Settings.ShardBy
		}
	}
	return shard.Division(s.count, by)
}

// errDivided is the cause of an end after a reload.
var errDivided = errors.New("the hooks divide the work in another way")

// redivided ends this replica, as SIGTERM does, if its hooks divide the work in another way than before. Replicas of two divisions never
// serve at one time.
func (op *operator) redivided(active []*hook.Hook) {
	switch now := op.shards.divisionOf(active); {
	case op.shards.count == 0 || now == op.shards.division:
	case op.divided == nil: // the first hooks
		op.shards.division = now
	default:
		op.log.Info("The hooks divide the work in another way, this replica ends and starts with the new division",
			"division", op.shards.division, "next", now)
		op.divided(errDivided)
	}
}

// assigned receives the shard of this replica.
func (op *operator) assigned(index int) {
	own := shard.Shard{Index: index, Count: op.shards.count}
	op.shards.own.Store(&own)
	op.watcher.Take(own) // the lists of the shard are made before it is served
	close(op.shards.taken)
}

// changed receives what is known of the Leases.
func (s *shards) changed(now replica.State) {
	before := s.state.Swap(&now)
	note, standby := s.role(now)
	s.health.SetRole(note, standby)
	if before != nil && before.Serving == now.Serving && before.Shard == now.Shard && before.Waits == now.Waits {
		return
	}
	log := s.log.With("division", s.division)
	switch {
	case now.Serving:
		log.Info("This replica serves a shard", "shard", fmt.Sprintf("%d/%d", now.Shard, s.count))
	case now.Shard >= 0:
		log.Info("This replica has a shard, and does not serve it yet", "shard", fmt.Sprintf("%d/%d", now.Shard, s.count), "waits", now.Waits)
	case now.Waits != "":
		log.Info("This replica is a standby", "waits", now.Waits)
	}
}

// role describes this replica, and reports whether another one has prepared what hooks need that answer requests: the owner of shard 0, or
// a replica of another division.
func (s *shards) role(now replica.State) (note string, standby bool) {
	if now.Serving {
		return fmt.Sprintf("shard %d/%d of division %s: this replica serves it", now.Shard, s.count, s.division), false
	}
	what := "standby"
	if now.Shard >= 0 {
		what = fmt.Sprintf("shard %d/%d", now.Shard, s.count)
	}
	note = fmt.Sprintf("%s of division %s: this replica waits for %s", what, s.division, now.Waits)
	return note, now.Shard != 0 && (now.Rival != "" || now.Holders[0] != "")
}

// status returns the shards for the status; nil without shards.
func (s *shards) status() *debug.ShardStatus {
	now := s.state.Load()
	if now == nil {
		return nil
	}
	d := &debug.ShardStatus{Shards: s.count, Division: s.division, Serving: now.Serving, Waits: now.Waits, Since: now.Since,
		Holders: now.Holders}
	if now.Shard >= 0 {
		d.Shard = &now.Shard
	}
	return d
}

// vacancy is the trouble of shards that have had no owner for long, as the first owner sees it.
func (s *shards) vacancy(vacant []int, selector string) []debug.Trouble {
	if len(vacant) == 0 {
		return nil
	}
	word, verb := "shard", "has"
	if len(vacant) > 1 {
		word, verb = "shards", "have"
	}
	names := strings.ReplaceAll(strings.Trim(fmt.Sprint(vacant), "[]"), " ", ", ")
	return []debug.Trouble{{Kind: debug.InLease,
		Subject: fmt.Sprintf("%s %s of %d, division %s", word, names, s.count, s.division),
		Problem: verb + " no owner",
		Hint:    fmt.Sprintf("are there %d live replicas, and one more as a standby? The owners: kubectl get leases -l %s", s.count, selector)}}
}

// elsewhere is why the runs of a hook are not here, and what to do; empty if they are.
func (s *shards) elsewhere(h *hook.Hook) (reason, hint string) {
	now := s.state.Load()
	switch {
	case s.count == 0:
		return "", ""
	case now == nil:
		return "this replica is a standby, it has not read the Leases of shards yet", "what keeps it from that: shell-operator status"
	}
	owners := "the owners of shards: kubectl get leases -l shell-operator/shards"
	switch {
	case !now.Serving && h.Settings.ShardBy == shard.None && now.Holders[0] != "":
		return fmt.Sprintf("%q runs the hook, with shard 0/%d; this replica is a standby", now.Holders[0], s.count),
			"run this there: shell-operator why " + h.Name
	case !now.Serving:
		note, _ := s.role(*now)
		return note, owners
	case !s.Shard().Runs(h.Settings.ShardBy):
		return fmt.Sprintf("the hook has no shardBy, so that it runs on shard 0; this replica serves shard %d/%d", now.Shard, s.count), owners
	}
	return "", ""
}

// elsewhereOf is where the events of an object of a shard are delivered, and where an object of an unknown one may be; empty if that is
// here.
func (s *shards) elsewhereOf(index int) string {
	now := s.state.Load()
	switch own := s.Shard(); {
	case index == watch.Everywhere || index == own.Index || now == nil:
		return ""
	case index == watch.Unknown:
		return fmt.Sprintf("it may belong to another shard than %s", own)
	case now.Holders[index] == "":
		return fmt.Sprintf("it belongs to shard %d/%d", index, s.count)
	default:
		return fmt.Sprintf("it belongs to shard %d/%d, which %q was serving when this replica last read the Leases", index, s.count,
			now.Holders[index])
	}
}

// info has a series for each shard: 1 if this replica serves it.
func (s *shards) info(set telemetry.Set) {
	now := s.state.Load()
	for i := range s.count {
		n := 0
		if now != nil && now.Serving && now.Shard == i {
			n = 1
		}
		set(n, strconv.Itoa(i), strconv.Itoa(s.count), s.division)
	}
}
