package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
	"github.com/shell-operator/shell-operator/test/chaos/record"
)

const (
	// shards is how many there are; one replica more is a standby.
	shards = 2
	// servesShard is what an owner logs, once.
	servesShard = "This replica serves a shard"
)

// shardBy is how the hooks divide their objects.
var shardBy = map[string]shard.By{"plain": shard.ByObject, "filtered": shard.ByObject, "labelled": shard.ByNamespace}

// Replicas share the objects, and owners of shards come and go. No watch breaks, so the owners of a shard, one after the other, have to
// deliver every change of its objects from their Synchronization on, and nothing else.
func TestShards(t *testing.T) {
	const name = "owners-come-and-go"
	wanted(t, name)
	together(t)
	w := newWorld(t, testenv.Shared(t), seed()*1000+320, false, "plain", "filtered", "labelled")
	for hook, by := range shardBy {
		w.divide(hook, by)
	}
	r := &sharing{world: w, args: []string{"--shards", fmt.Sprint(shards)}}
	end := r.run(shards + 1)
	defer end()
	defer w.judgeBy(name, time.Now(), func() []string { return r.verdict(end) })
	w.writer.stir(30)
	r.untilServed(nil)
	w.writer.start()
	rounds := 1
	if all {
		rounds = 3
	}
	for range rounds {
		for _, i := range w.random.Perm(len(losses)) {
			// While they start, list, run hooks: wherever they are.
			time.Sleep(time.Duration(w.random.IntN(1500)) * time.Millisecond)
			began := time.Now()
			r.lose(w.random.IntN(shards), losses[i].do)
			t.Logf("after %s all shards were served within %s", losses[i].name, time.Since(began).Round(time.Millisecond))
		}
	}
}

// Replicas are replaced as by a Deployment: from leader election to shards, to another shardBy, and back. In the end each hook has received
// the last state of each object, and no change was delivered by two processes.
func TestRolledOut(t *testing.T) {
	const name = "rolled-out"
	wanted(t, name)
	together(t)
	w := newWorld(t, testenv.Shared(t), seed()*1000+330, false, "plain")
	r := &sharing{world: w}
	end := func() {}
	defer w.judgeBy(name, time.Now(), func() []string {
		w.writer.stop()
		w.records.until(patience, "plain", func(lines []record.Line) bool { return len(r.unseen(lines)) == 0 })
		end()
		return append(r.unseen(w.records.of("plain")), r.delivered("plain")...)
	})
	w.writer.stir(30)
	w.writer.start()
	for _, step := range []struct {
		replicas int
		args     string
		by       shard.By
	}{
		{2, "--leader-election", shard.None}, {shards + 1, "--shards 2", shard.ByObject}, {shards + 1, "--shards 2", shard.ByNamespace},
		{2, "--leader-election", shard.None},
	} {
		before := end
		w.divide("plain", step.by)
		r.mu.Lock()
		r.args, r.since = strings.Fields(step.args), len(r.all)
		r.mu.Unlock()
		end = r.run(step.replicas)
		before()
		if step.by == shard.None {
			r.until("a replica leads", func() bool { return r.serving(leads) })
		} else {
			r.untilServed(nil)
		}
		time.Sleep(time.Duration(w.random.IntN(1500)) * time.Millisecond)
	}
}

// serving reports whether a process of the present args has logged a message.
func (r *sharing) serving(message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all[r.since:], func(one *sharer) bool { return one.Count(message) > 0 })
}

// unseen are the last states that a hook has not received.
func (r *sharing) unseen(lines []record.Line) (wrong []string) {
	shown := map[int]bool{}
	for _, l := range lines {
		for _, c := range l.Contexts {
			if c.Object != nil {
				shown[c.Object.Count] = true
			}
			for _, o := range c.Objects {
				shown[o.Count] = true
			}
		}
	}
	for k, versions := range r.writer.history() {
		if last := versions[len(versions)-1]; !last.gone && r.views()["plain"].sees(k) && !shown[last.count] {
			wrong = append(wrong, fmt.Sprintf("the last state of %s, %d, was not received", k, last.count))
		}
	}
	return wrong
}

// delivered are the changes that two processes have delivered.
func (r *sharing) delivered(hook string) (wrong []string) {
	by := map[string]string{}
	for _, l := range r.records.of(hook) {
		for _, c := range l.Contexts {
			if c.Object == nil {
				continue
			}
			what := fmt.Sprintf("%s of %s, %d", c.Watch, key(*c.Object), c.Object.Count)
			if other := by[what]; other != "" && other != l.Operator {
				wrong = append(wrong, fmt.Sprintf("%s was delivered by %s and %s", what, other, l.Operator))
			}
			by[what] = l.Operator
		}
	}
	return wrong
}

// losses are how a shard loses its owner. None returns before the owner has ended.
var losses = []struct {
	name string
	do   func(r *sharing, s int, owner *testenv.Operator)
}{
	{"SIGKILL", func(_ *sharing, _ int, owner *testenv.Operator) { owner.Signal(syscall.SIGKILL); owner.Wait() }},
	{"SIGTERM", func(_ *sharing, _ int, owner *testenv.Operator) { owner.Signal(terminate); owner.Wait() }},
	{"SIGSTOP", func(r *sharing, s int, owner *testenv.Operator) {
		owner.Signal(syscall.SIGSTOP)
		r.until("the shard of a stopped replica is served", func() bool { return r.owner(s) != owner })
		owner.Signal(syscall.SIGCONT) // it may have runs to start
		owner.Wait()
	}},
	{"a deleted Lease", func(r *sharing, s int, owner *testenv.Operator) { r.deleteLeases(s); owner.Wait() }},
	{"all Leases deleted", func(r *sharing, _ int, owner *testenv.Operator) { r.deleteLeases(-1); owner.Wait() }},
}

// divide sets shardBy of a hook.
func (w *world) divide(hook string, by shard.By) {
	w.t.Helper()
	path := filepath.Join(w.dir, hook+".yaml")
	text, err := os.ReadFile(path)
	w.must(err)
	settings := "settings: {"
	if by != shard.None {
		settings += fmt.Sprintf("shardBy: %s, ", by)
	}
	w.must(os.WriteFile(path, regexp.MustCompile(`settings: \{(shardBy: \w+, )?`).ReplaceAll(text, []byte(settings)), 0o600))
}

// sharing is replicas that share the objects of a world.
type sharing struct {
	*world

	mu sync.Mutex
	// args are the arguments of the next processes.
	args []string
	// all have been started, in this order; since begins those that count as owners.
	all   []*sharer
	since int
}

// sharer is one process of a replica.
type sharer struct {
	*testenv.Operator
	start
	ended bool
}

// run keeps replicas running, as Kubernetes does, until the function that it returns is called; that may be done again.
func (r *sharing) run(n int) (end func()) {
	ending, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for ending.Err() == nil {
				s := r.launch()
				stop := context.AfterFunc(ending, func() {
					// Earlier, the signal ends it as any program.
					_ = s.TryUntil(test.Patience, func(records []testenv.Record) bool { return len(records) > 0 })
					s.Signal(terminate)
				})
				status := s.Wait()
				stop()
				s.Expect(status)
				if !slices.Contains([]int{0, 1, -1}, status) || ending.Err() != nil && status != 0 {
					r.t.Errorf("replica %s ended with status %d", s.name, status)
				}
				r.mu.Lock()
				s.ended = true
				r.mu.Unlock()
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

func (r *sharing) launch() *sharer {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sharer{start: start{name: fmt.Sprint(len(r.all) + 1), at: time.Now()}}
	// The Lease is long enough for a busy machine to renew it.
	s.Operator = r.world.run(s.start, []string{"POD_NAME=" + s.name}, append([]string{"--kubernetes-events=false",
		"--namespace", r.mirrors, "--leader-election-lease-duration", "8s"}, r.args...)...)
	r.all = append(r.all, s)
	return s
}

// owners returns the processes that have served a shard, the last one last.
func (r *sharing) owners(s int) (owners []*sharer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := map[*sharer]time.Time{}
	for _, one := range r.all[r.since:] {
		for _, line := range one.Records() {
			if line.Has(servesShard, "shard", shard.Shard{Index: s, Count: shards}.String()) {
				since[one] = line.At
				owners = append(owners, one)
			}
		}
	}
	slices.SortFunc(owners, func(a, b *sharer) int { return since[a].Compare(since[b]) })
	return owners
}

// owner is the live process that serves a shard; nil if there is none.
func (r *sharing) owner(s int) *testenv.Operator {
	owners := r.owners(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(owners) == 0 || owners[len(owners)-1].ended {
		return nil
	}
	return owners[len(owners)-1].Operator
}

// until waits for a condition.
func (r *sharing) until(what string, holds func() bool) {
	r.t.Helper()
	for late := time.Now().Add(patience); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(late) {
			r.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// untilServed waits until all shards have owners, none of which is but.
func (r *sharing) untilServed(but *testenv.Operator) {
	r.t.Helper()
	r.until("all shards are served", func() bool {
		for s := range shards {
			if op := r.owner(s); op == nil || op == but {
				return false
			}
		}
		return true
	})
}

// lose takes the owner of a shard away, and waits for the next one.
func (r *sharing) lose(s int, do func(r *sharing, s int, owner *testenv.Operator)) {
	r.t.Helper()
	var owner *testenv.Operator
	r.until("the shard has an owner", func() bool { owner = r.owner(s); return owner != nil })
	do(r, s, owner)
	r.untilServed(owner)
}

// deleteLeases deletes the Lease of a shard; a negative number is for all.
func (r *sharing) deleteLeases(s int) {
	r.t.Helper()
	leases := r.client.CoordinationV1().Leases(r.mirrors)
	list, err := leases.List(context.Background(), metav1.ListOptions{LabelSelector: "shell-operator/shards"})
	r.must(err)
	for _, lease := range list.Items {
		if s < 0 || lease.Annotations["shell-operator/shard"] == (shard.Shard{Index: s, Count: shards}).String() {
			r.must(leases.Delete(context.Background(), lease.Name, metav1.DeleteOptions{}))
		}
	}
}

// verdict checks everything that the hooks have seen: at first as soon as they have seen all, and again when the replicas have ended.
func (r *sharing) verdict(end func()) (wrong []string) {
	r.t.Helper()
	r.writer.stop()
	h := r.writer.history()
	for hook := range shardBy {
		r.records.until(patience, hook, func(lines []record.Line) bool { return len(r.check(h, hook, lines)) == 0 })
	}
	end()
	for hook := range shardBy {
		wrong = append(wrong, r.check(h, hook, r.records.of(hook))...)
	}
	return append(wrong, r.writer.verify(context.Background())...)
}

// check follows the owners of each shard.
func (r *sharing) check(h history, hook string, lines []record.Line) (wrong []string) {
	for s := range shards {
		var starts []start
		var names []string
		for _, one := range r.owners(s) {
			starts, names = append(starts, one.start), append(names, one.name)
		}
		seen := sessions(lines, starts)
		for i := 1; i < len(seen); i++ {
			// The Lease was free after the last run of the owner before, and only then it has listed the objects.
			if before := last(seen[i-1]); before.After(seen[i].started) {
				seen[i].started = before
			}
			if len(seen[i].runs) > 0 && last(seen[i-1]).After(seen[i].runs[0].at) {
				wrong = append(wrong, fmt.Sprintf("hook %s, shard %d: replica %s began a run after the next owner, %s", hook, s, names[i-1], names[i]))
			}
		}
		for _, text := range check(ofShard(h, s, shardBy[hook]), r.views()[hook], seen) {
			wrong = append(wrong, fmt.Sprintf("hook %s, shard %d of replicas %v: %s", hook, s, names, text))
		}
	}
	return wrong
}

// last is when the last run began.
func last(s session) (at time.Time) {
	if len(s.runs) > 0 {
		at = s.runs[len(s.runs)-1].at
	}
	return at
}

// ofShard is what has happened to the objects of a shard. An object of the same name that was made later may be of another one.
func ofShard(h history, s int, by shard.By) history {
	mine := shard.Shard{Index: s, Count: shards}.Part(by)
	kept := history{}
	for k, all := range h {
		all = slices.DeleteFunc(slices.Clone(all), func(v version) bool { return !mine.Has(v.uid, strings.Split(k, "/")[1]) })
		if len(all) > 0 {
			kept[k] = all
		}
	}
	return kept
}
