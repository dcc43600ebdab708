package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/replica/ownership"
	"github.com/shell-operator/shell-operator/internal/test"
)

// group is replicas that share work, in one division or another, beside leaders of leader election, whose division is "".
type group struct {
	t      *testing.T
	server *server

	mu sync.Mutex
	// serving has who serves what: "division/shard" and the name of the replica.
	serving map[string]string
	members map[string]*member
	// began is when each replica began to serve, ended when it stopped.
	began, ended map[string]time.Time
	// mixed allows two divisions: Leases were deleted.
	mixed bool
}

type member struct {
	*Lease
	line   *line
	end    context.CancelFunc
	result chan error
	// tail is how long its last run takes after the end.
	tail     time.Duration
	assigned int
}

func newGroup(t *testing.T) *group {
	return &group{t: t, server: newServer(), serving: map[string]string{}, members: map[string]*member{},
		began: map[string]time.Time{}, ended: map[string]time.Time{}}
}

func (g *group) start(name, division string, shards int, change func(*member)) *member {
	m := &member{line: newLine(g.server), result: make(chan error, 1), assigned: -1}
	m.Lease = newLease(Options{
		Namespace: "n", Name: "lease", Pod: name, Shards: shards,
		Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Client: m.line.client(g.t),
	})
	if change != nil {
		change(m)
	}
	ctx, end := context.WithCancel(g.t.Context())
	m.end = end
	g.members[name] = m
	done := make(chan struct{})
	g.t.Cleanup(func() { end(); <-done })
	serve := func(held context.Context) {
		key := fmt.Sprintf("%s/%d", division, max(m.assigned, 0))
		g.enter(key, name)
		defer g.leave(key)
		select {
		case <-ctx.Done():
		case <-held.Done():
			return
		}
		select { // running hooks finish first
		case <-time.After(m.tail):
		case <-held.Done():
		}
	}
	go func() {
		defer close(done)
		if shards == 0 {
			m.result <- m.Run(ctx, serve)
			return
		}
		m.result <- m.RunShard(ctx, Shard{Division: division, Serve: serve, Assigned: func(i int) {
			if m.assigned >= 0 {
				g.t.Errorf("%s gets shard %d after %d", name, i, m.assigned)
			}
			m.assigned = i
		}})
	}()
	return m
}

func (g *group) enter(key, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.serving[key]; before != "" {
		g.t.Errorf("%s and %s serve %s", before, name, key)
	}
	division, _, _ := strings.Cut(key, "/")
	for other := range g.serving {
		if d, _, _ := strings.Cut(other, "/"); d != division && !g.mixed {
			g.t.Errorf("%s and %s are served", other, key)
		}
	}
	g.serving[key], g.began[name] = name, time.Now()
}

func (g *group) leave(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended[g.serving[key]] = time.Now()
	delete(g.serving, key)
}

// expect waits and checks what is served then.
func (g *group) expect(after time.Duration, served ...string) {
	g.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := slices.Sorted(maps.Keys(g.serving)); !slices.Equal(got, served) {
		g.t.Fatalf("served are %v, want %v", got, served)
	}
}

// owner returns the replica that serves a shard.
func (g *group) owner(key string) *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[g.serving[key]]
}

var threeA = []string{"a/0", "a/1", "a/2"}

// The first start takes one Lease duration. The standby gets its shard, and serves it, when an owner has ended.
func TestShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		for i := range 4 {
			g.start(fmt.Sprint("r", i), "a", 3, nil)
		}
		g.expect(14 * time.Second)
		g.expect(2*time.Second, threeA...)
		g.expect(4*time.Minute, threeA...) // the standby has its first watch
		var standby *member
		for _, m := range g.members {
			if m.assigned < 0 {
				standby = m
			}
		}
		if s := standby.State(); s.Serving || s.Shard != -1 || slices.Contains(s.Holders, "") || s.Waits != "a Lease that is free" {
			t.Errorf("the state of the standby is %+v", s)
		}
		first := g.owner("a/1")
		if s := first.State(); !s.Serving || s.Shard != 1 || s.Waits != "" {
			t.Errorf("the state of an owner is %+v", s)
		}
		first.end()
		if err := <-first.result; err != nil {
			t.Error(err)
		}
		g.expect(100*time.Millisecond, threeA...)
		if g.owner("a/1") != standby {
			t.Error("the standby does not serve")
		}
		lease := g.server.lease("lease-shard-1")
		if lease.Labels["shell-operator/shards"] != "lease" || lease.Annotations["shell-operator/shard"] != "1/3" ||
			lease.Annotations["shell-operator/division"] != "a" ||
			len(lease.OwnerReferences) > 0 {
			t.Errorf("the Lease is %+v", lease.ObjectMeta)
		}
	})
}

// A holder restores the label of its Lease, without which it is invisible to lists. A Lease of another program with the name of one of a
// shard stays as it is, and is a problem.
func TestShardWithoutLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		m := g.start("r", "a", 1, nil)
		g.expect(16*time.Second, "a/0")
		g.server.change(t, "lease-shard-0", func(l *coordinationv1.Lease) { delete(l.Labels, ShardsLabel) })
		g.expect(3*time.Second, "a/0")
		if label := g.server.lease("lease-shard-0").Labels[ShardsLabel]; label != "lease" {
			t.Errorf("the label is %q", label)
		}
		g.stop(m)
		g.server.change(t, "lease-shard-0", func(l *coordinationv1.Lease) {
			l.Labels, l.Spec.HolderIdentity = nil, ptr.To("other")
		})
		m = g.start("s", "a", 1, nil)
		g.expect(time.Minute)
		if p := m.Problem(); !strings.Contains(p, "of another program, set another --leader-election-lease") || m.line.creations.Load() > 40 {
			t.Errorf("after %d creations the problem is %q", m.line.creations.Load(), p)
		}
		if lease := g.server.lease("lease-shard-0"); lease.Labels[ShardsLabel] != "" || holder(lease) != "other" {
			t.Errorf("the Lease is %+v", lease)
		}
	})
}

// Replicas of another division, or with leader election, are standbys until the last one of the old division has ended.
func TestOneDivision(t *testing.T) {
	for _, test := range []struct{ old, next string }{{"a", "b"}, {"", "a"}, {"a", ""}} {
		t.Run(test.old+" to "+test.next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(t)
				count := func(division string) int { return 2 * len(division) }
				var all []string
				keys := func(division string) (keys []string) {
					for i := range max(count(division), 1) {
						keys = append(keys, fmt.Sprintf("%s/%d", division, i))
					}
					return keys
				}
				for i := range 2 {
					all = append(all, fmt.Sprint("old", i))
					g.start(all[i], test.old, count(test.old), nil)
				}
				g.expect(16*time.Second, keys(test.old)...)
				for i := range 3 {
					g.start(fmt.Sprint("next", i), test.next, count(test.next), func(m *member) { m.line.blind = i == 0 })
				}
				g.expect(time.Minute, keys(test.old)...)
				if s := g.members["next1"].State(); !strings.Contains(s.Waits, `the end of`) {
					t.Errorf("a replica waits for %q", s.Waits)
				}
				for _, name := range all {
					g.members[name].end()
					<-g.members[name].result
				}
				g.expect(20*time.Second, keys(test.next)...)
				// The one that has deleted the Leases of the other division gives its own back, too.
				time.Sleep(time.Minute)
				for range 2 {
					owner := g.owner(keys(test.next)[0])
					owner.end()
					<-owner.result
					g.start("more"+owner.identity, test.next, count(test.next), nil)
					g.expect(5*time.Second, keys(test.next)...)
				}
				for _, o := range g.server.Objects() {
					if g.server.lease(o.Name).Annotations["shell-operator/division"] == test.old {
						t.Errorf("the Lease %s is left", o.Name)
					}
				}
			})
		})
	}
}

// With fewer replicas than shards there is no standby, and the first of the owners reports the shards without one, whose process was
// killed, too. The test kills the owner of each shard in turn.
func TestVacantWithoutStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		m := g.start("only", "a", 3, nil)
		time.Sleep(16*time.Second + 40*time.Second)
		synctest.Wait()
		if got := m.Vacant(); got != nil {
			t.Errorf("vacant are %v too early", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := m.Vacant(); len(got) != 2 || slices.Contains(got, m.assigned) {
			t.Errorf("the owner of shard %d reports %v", m.assigned, got)
		}
	})
	for dead := range 3 {
		synctest.Test(t, func(t *testing.T) {
			g := newGroup(t)
			for i := range 3 {
				g.start(fmt.Sprint("r", i), "a", 3, nil)
			}
			g.expect(16*time.Second, threeA...)
			killed, first := g.owner(threeA[dead]), g.owner("a/0")
			if dead == 0 {
				first = g.owner("a/1")
			}
			vacant := func(after time.Duration, want ...int) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				for name, m := range g.members {
					switch got := m.Vacant(); {
					case m == first && !slices.Equal(got, want):
						t.Errorf("without the owner of shard %d: vacant are %v, want %v", dead, got, want)
					case m != first && got != nil:
						t.Errorf("without the owner of shard %d: %s with shard %d reports %v", dead, name, m.assigned, got)
					}
				}
			}
			vacant(70 * time.Second)
			close(killed.line.broken) // it can neither renew nor release its Lease
			vacant(40 * time.Second)
			vacant(30*time.Second, dead)
			g.start("next", "a", 3, nil)
			vacant(40 * time.Second)
			close(first.line.broken)
			vacant(20 * time.Second)
		})
	}
}

// A missing permission is reported once, although other requests succeed meanwhile, until it is granted.
func TestPermissionForOneRequest(t *testing.T) {
	var log bytes.Buffer
	l := newLease(Options{Name: "lease", Pod: "a", Shards: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
	d := &driver{Lease: l, phase: ownership.Checking}
	report := func(op ownership.Op, err error) {
		d.report(t.Context(), ownership.Action{Op: op, Lease: ownership.Lease{Name: "lease-shard-0"}}, err, 0)
	}
	for range 5 {
		report(ownership.Delete, apierrors.NewForbidden(leases, "lease-shard-0", errors.New("no")))
		report(ownership.Renew, nil)
		report(ownership.List, nil)
		if l.Problem() == "" {
			t.Fatal("there is no problem any more")
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines are logged:\n%s", n, &log)
	}
	report(ownership.Delete, nil)
	if l.Problem() != "" || !strings.Contains(log.String(), "can be used again") {
		t.Errorf("the problem is %q, the log\n%s", l.Problem(), &log)
	}
	report(ownership.Delete, apierrors.NewForbidden(leases, "lease-shard-0", errors.New("no")))
	d.phase = ownership.Settling
	if report(ownership.Renew, nil); l.Problem() != "" {
		t.Errorf("the problem outlives what it was for: %q", l.Problem())
	}
}

// Without the permission to list Leases a replica does not lead, because shards may be served, and says which rule is missing.
func TestLeaderWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		for i := range 3 {
			g.start(fmt.Sprint("owner", i), "a", 3, nil)
		}
		g.expect(17*time.Second, threeA...)
		m := g.start("leader", "", 0, func(m *member) { m.line.unlisted.Store(true) })
		g.expect(5*time.Minute, threeA...)
		if p := m.Problem(); !strings.Contains(p, `resources: ["leases"], verbs: ["get", "list", `) {
			t.Errorf("the problem is %q", p)
		}
		for i := range 3 {
			g.members[fmt.Sprint("owner", i)].end()
		}
		g.expect(5 * time.Minute)
		m.line.unlisted.Store(false)
		g.expect(time.Minute, "/0")
	})
}

// An owner of a shard ends when a leader leads all the same, within two Lease durations; one that died before is none.
func TestLeaderBesideShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t)
		lead := func() { // as a program that knows no shards
			lease, write := g.server.lease("lease"), func(text []byte) (memory.Object, error) { return g.server.Replace(text) }
			if lease.Name == "" {
				write = func(text []byte) (memory.Object, error) { return g.server.Add(text, true) }
			}
			text := fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"namespace": "n", "name": "lease"},
				"spec": {"holderIdentity": "leader_x", "leaseDurationSeconds": 15, "renewTime": %q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			if _, err := write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		lead()
		m := g.start("owner", "a", 1, nil)
		g.expect(5*time.Minute, "a/0")
		for range 15 {
			lead()
			time.Sleep(2 * time.Second)
		}
		g.expect(time.Second)
		if err := <-m.result; err == nil || !strings.Contains(err.Error(), `"leader_x" leads`) {
			t.Errorf("the owner ended with %v", err)
		}
	})
}

// Replicas come, go, die and lose their lines at random: leaders, or owners of two divisions beside leaders, or Leases are deleted.
// None serves what another one serves (see enter), and in the end all is served.
func TestAtMostOne(t *testing.T) {
	seeds := uint64(3) // one of each kind
	if test.Long() {
		seeds = 500
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				g := newGroup(t)
				divisions, last, served := []string{"a", "a", "a", "b", ""}, "b", []string{"b/0", "b/1"}
				switch seed % 3 {
				case 0:
					divisions, last, served = []string{""}, "", []string{"/0"}
				case 1:
					g.mixed = true
				}
				alive := []string{}
				start := func(n int, division string) {
					name := fmt.Sprint("r", n)
					alive = append(alive, name)
					g.start(name, division, 2*len(division), func(m *member) {
						m.tail = time.Duration(random.IntN(5000)) * time.Millisecond
						m.line.delay = time.Duration(random.IntN(400)) * time.Millisecond
						m.line.blind = random.IntN(4) == 0
					})
				}
				for n := range 60 {
					i := random.IntN(max(1, len(alive)))
					switch {
					case len(alive) < 3 || len(alive) < 6 && random.IntN(3) == 0:
						start(n, divisions[random.IntN(len(divisions))])
					case g.mixed && random.IntN(4) == 0:
						for _, o := range g.server.Objects() {
							if o.Name != "lease" && random.IntN(2) == 0 { // the one of leader election protects against fewer faults
								g.server.Remove(o)
							}
						}
					case random.IntN(2) == 0:
						g.members[alive[i]].end()
						alive = slices.Delete(alive, i, i+1)
					default:
						close(g.members[alive[i]].line.broken)
						alive = slices.Delete(alive, i, i+1)
					}
					time.Sleep(time.Duration(random.IntN(20000)) * time.Millisecond)
				}
				for _, name := range alive {
					g.members[name].end()
				}
				for n := range 3 {
					start(100+n, last)
				}
				g.expect(5*time.Second+2*15*time.Second+5*time.Second, served...) // the last runs take up to 5 s
			})
		})
	}
}
