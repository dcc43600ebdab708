package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// replica is one of the operators that share an object. Its hooks are ready one after the other.
type replica struct {
	*keeper
	ready map[string]bool
}

func newReplica(t *testing.T, names ...string) *replica {
	r := &replica{ready: map[string]bool{}}
	var hooks []*hook.Hook
	for _, name := range names {
		hooks = append(hooks,
			&hook.Hook{Name: name, Validating: []hook.Admission{{Binding: hook.Binding{Name: strings.TrimSuffix(name, ".sh") + ".acme.dev"}}}})
	}
	registrar, _ := newRegistrar(t, RegistrarOptions{Hooks: hooks, Target: keep.Target{Service: svc,
		Token: func(string) string { return "token" }, Ready: func(h *hook.Hook, _ hook.Address) bool { return r.ready[h.Name] }}})
	r.keeper = registrar.keepers[0]
	return r
}

// step does once what reconcile does with an object in memory, and reports whether that has changed it.
func (r *replica) step(live **configuration) bool {
	r.begin(*live)
	before, want := *live, r.desired(*live, nil)
	switch do := r.decide(*live, want); {
	case do == leave, r.writtenLater(*live): // for a while
		return false
	case do == remove:
		*live = nil
	default:
		*live = r.written(*live, want)
	}
	r.raised = r.raised || numberOf(before) < r.number
	return true
}

func webhooksOf(live *configuration) string {
	var names []string
	if live != nil {
		for _, w := range live.Webhooks {
			names = append(names, strings.TrimSuffix(w.Name, ".acme.dev"))
		}
	}
	return strings.Join(names, " ")
}

// The operator that began last has the highest number, without a clock, and whether an earlier one has written or not; with its number it
// keeps what it writes.
func TestNumbers(t *testing.T) {
	var live *configuration
	begin := func(name string) *replica {
		r := newReplica(t, name)
		r.ready[name] = true
		r.begin(live)
		return r
	}
	check := func(r *replica, changed bool, number int) {
		t.Helper()
		if got := r.step(&live); got != changed || numberOf(live) != number {
			t.Errorf("%s: got %t and number %d, want %t and %d", r.webhooks[0].hook.Name, got, numberOf(live), changed, number)
		}
	}
	first := begin("a.sh")
	check(first, true, 1)
	equal := begin("a.sh")
	check(equal, false, 1)
	last := begin("b.sh")
	check(last, true, 2)
	check(first, false, 2)
	check(equal, false, 2)
	live.Webhooks = nil // by another client
	check(last, true, 2)
	again := begin("a.sh")
	check(again, true, 3)
	check(last, false, 3)
	check(equal, false, 3) // it is as desired
	live = nil
	check(again, true, 3)
}

// Replicas, in any order of their steps, register what is ready with one of them, and come to rest: a leader and a standby, or owners of
// shards, of which only the owner of shard 0 has run a hook without shardBy at the start.
func TestReplicasThatWait(t *testing.T) {
	names := []string{"a.sh", "b.sh", "c.sh"}
	rapid.Check(t, func(rt *rapid.T) {
		var all []*replica
		for range rapid.IntRange(2, 4).Draw(rt, "replicas") {
			all = append(all, newReplica(t, names...))
		}
		var live *configuration
		var log []string
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(all)-1).Draw(rt, "replica")
			if name := rapid.SampledFrom(append([]string{""}, names...)).Draw(rt, "ready"); name != "" {
				all[i].ready[name] = true
			}
			before := strings.Fields(webhooksOf(live))
			all[i].step(&live)
			after := strings.Fields(webhooksOf(live))
			log = append(log, fmt.Sprintf("%d %v: %v", i, all[i].ready, after))
			for _, name := range before {
				if !slices.Contains(after, name) {
					rt.Fatalf("%s is gone:\n%s", name, strings.Join(log, "\n"))
				}
			}
		}
		step := func(r *replica) bool { return r.step(&live) }
		for n := 0; slices.ContainsFunc(all, step); n++ {
			if n == 20 {
				rt.Fatalf("they do not come to rest:\n%s\n%s", strings.Join(log, "\n"), webhooksOf(live))
			}
		}
		var want []string
		for _, name := range names {
			if slices.ContainsFunc(all, func(r *replica) bool { return r.ready[name] }) {
				want = append(want, strings.TrimSuffix(name, ".sh"))
			}
		}
		got := strings.Fields(webhooksOf(live))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			rt.Fatalf("registered %v, want %v:\n%s", got, want, strings.Join(log, "\n"))
		}
	})
}
