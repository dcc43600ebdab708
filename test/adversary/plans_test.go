package adversary

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reference is what an undisturbed run of a workload has written, and the states in which it came to rest.
type reference struct {
	load      *workload
	writes    []write
	states    []state
	resources []schema.GroupVersionResource
}

// plan is one run of a workload with one disturbance.
type plan struct {
	*reference
	pattern string
	// name repeats it, class is what it is an example of.
	name, class string
	disturbance func() disturbance
	// fresh makes the reference, if it is not the one of the workload.
	fresh *workload
	// check finds what differs beside the states.
	check func(*world)
}

func (r *reference) plan(pattern, name, class string, d func() disturbance) *plan {
	return &plan{reference: r, pattern: pattern, name: r.load.name + "/" + pattern + "/" + name,
		class: strings.Join([]string{r.load.name, pattern, class}, " "), disturbance: d, check: (*world).checkEffects}
}

// plans are all of a workload.
func (r *reference) plans() (all []*plan) {
	all = append(all, r.plan("none", "undisturbed", "", func() disturbance { return nothing{} }))
	for _, w := range r.writes {
		if w.effect != "" {
			all = append(all, r.intermediate(w)...)
		}
		if !w.hooks && w.status/100 == 2 {
			all = append(all, r.refusals(w)...)
		}
		decides := w.verb == "delete" || strings.Contains(w.fields, "/finalizers") || strings.HasSuffix(w.kind, "/status")
		if !w.hooks && decides && w.effect != "" {
			all = append(all, r.lateViews(w)...)
		}
	}
	for _, by := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 10 * time.Second} {
		p := r.plan("D", by.String(), by.String(), func() disturbance { return &slow{by: by, once: by > 2*time.Second} })
		p.check = func(w *world) { w.checkSeen(by <= 2*time.Second) }
		all = append(all, p)
	}
	for i, s := range r.load.steps {
		if s.Cancels {
			gvr := resourceOf(s.Object)
			all = append(all, r.plan("B", fmt.Sprintf("%d,%s,%v", i, s.Do, gvr.Resource), fmt.Sprint(i), func() disturbance {
				return &unseen{second: i, group: gvr.Group, resource: gvr.Resource, seen: make(chan struct{})}
			}))
		}
	}
	return all
}

// intermediate are the plans of pattern A: the state between two writes is the last one of a process.
func (r *reference) intermediate(w write) (all []*plan) {
	for _, after := range []bool{false, true} {
		for _, stop := range []bool{false, true} {
			if stop && r.load.Replicas == 1 {
				continue
			}
			how := map[bool]string{false: "kill", true: "stop"}[stop] + map[bool]string{false: "-before", true: "-after"}[after]
			all = append(all, r.plan("A", how+"/"+w.place.String(), how+" "+w.class(), func() disturbance {
				return &loseProcess{atPlace: atPlace{at: w.place}, after: after, stop: stop}
			}))
		}
	}
	return all
}

// refusals are the plans of pattern F.
func (r *reference) refusals(w write) (all []*plan) {
	for _, statuses := range [][2]int{
		{http.StatusConflict, http.StatusInternalServerError}, {http.StatusTooManyRequests, http.StatusForbidden},
	} {
		how := fmt.Sprintf("%d-%d", statuses[0], statuses[1])
		all = append(all, r.plan("F", how+"/"+w.place.String(), how+" "+w.class(), func() disturbance {
			return &refuse{atPlace: atPlace{at: w.place}, with: statuses}
		}))
	}
	return all
}

// lateViews are the plans of pattern C.
func (r *reference) lateViews(w write) (all []*plan) {
	for _, how := range []string{"restart", "interrupt", "back"} {
		p := r.plan("C", how+"/"+w.place.String(), how+" "+w.class(), func() disturbance {
			return &late{at: w.place, how: how, present: make(chan struct{})}
		})
		if r.load.Plain { // a hook deletes, by what it has seen
			p.check = func(*world) {}
		}
		all = append(all, p)
	}
	return all
}

// class is the same for writes that are alike.
func (w write) class() string { return w.verb + " " + w.kind + " " + w.effect + " " + w.fields }

// choose orders plans: those that are alone in their class first, then the others, at random.
func choose(plans []*plan, seed uint64) (ordered []*plan, distinct int) {
	random := rand.New(rand.NewPCG(seed, 0))
	plans = slices.Clone(plans)
	random.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	classes := map[string]bool{}
	var others []*plan
	for _, p := range plans {
		if classes[p.class] {
			others = append(others, p)
			continue
		}
		classes[p.class] = true
		ordered = append(ordered, p)
	}
	return append(ordered, others...), len(ordered)
}

// recorded matches a context in the words of a hook. A jq writes the end of a line apart, so that lines of hooks that run at once may be mixed.
var recorded = regexp.MustCompile(`([A-Z]\w+) (\S+) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`)

// checkContexts checks what hooks have written about their contexts: an object that was recreated is another one, so it is not Modified.
func (w *world) checkContexts() {
	w.t.Helper()
	text, _ := os.ReadFile(w.contexts)
	known := map[string]bool{}
	for _, fields := range recorded.FindAllStringSubmatch(string(text), -1) {
		event, name, uid := fields[1], fields[2], fields[3]
		if !known[uid] && event == "Modified" {
			w.t.Errorf("the first context of %s %s is Modified", name, uid)
		}
		known[uid] = true
	}
}

// checkEffects compares how often each object was created and deleted, whatever the order. What came and went between two states of the
// reference may be missing: the next process did not see why. What was created and is gone in the next state was collected with its owner,
// which went while it was created. Where a step cancels the one before, the two may be seen here, and not in the reference.
func (w *world) checkEffects() {
	w.t.Helper()
	is, wanted := effects(w.writes), effects(w.reference.writes)
	fewer, more := map[string]int{}, map[string]int{}
	cancels := make([]int, len(w.reference.states)+1)
	settled := 0
	for _, s := range w.load.steps {
		if s.Do == "settle" {
			settled++
		} else if s.Cancels {
			cancels[settled]++
		}
	}
	for i, next := range w.reference.states {
		here, there := effects(during(w.writes, i)), effects(during(w.reference.writes, i))
		for key, n := range here {
			object, created := strings.CutSuffix(key, " was created")
			if !created {
				continue
			}
			deleted, again := object+" was deleted", max(0, n-there[key])
			seen := min(cancels[i], again, max(0, here[deleted]-there[deleted]))
			if more[deleted] += seen; next[object] == "" {
				seen = again
			}
			more[key] += seen
		}
		for key, n := range there {
			object, _, _ := strings.Cut(key, " was ")
			fewer[key] += min(n, there[object+" was deleted"], there[object+" was created"])
		}
	}
	all := maps.Clone(is)
	maps.Copy(all, wanted)
	for key := range all {
		object, created := strings.CutSuffix(key, " was created")
		switch record := strings.Contains(object, "/shell-operator-"); {
		case record && created:
			// The record of a set whose first member is refused goes until the next attempt.
			again := min(is[key]-wanted[key], is[object+" was deleted"]-wanted[object+" was deleted"])
			more[key], more[object+" was deleted"] = more[key]+max(0, again), more[object+" was deleted"]+max(0, again)
		case record: // It goes after its owner, if the operator runs for a minute.
			more[key], fewer[key] = more[key]+1, fewer[key]+1
		}
	}
	for key := range all {
		if is[key] < wanted[key]-fewer[key] || is[key] > wanted[key]+more[key] {
			w.t.Errorf("%s %d times, in the reference %d times", key, is[key], wanted[key])
		}
	}
}

// checkSeen finds runs that did not see what an earlier one had created: within the bound of the wait there are none, beyond it they are
// named.
func (w *world) checkSeen(bounded bool) {
	w.t.Helper()
	w.checkEffects()
	if !w.load.Numbers {
		return
	}
	taken := slices.ContainsFunc(w.writes, func(one write) bool { return one.verb == "create" && one.status == http.StatusConflict })
	switch {
	case bounded && taken:
		w.t.Error("a run began before the snapshot had what an earlier one created")
	case taken && !strings.Contains(w.replica(0).op.Ask("runs", "-o", "json"), `"lacking"`):
		w.t.Error("no run has the name of what its snapshot lacked")
	}
}

// during are the writes between two states.
func during(writes []write, interval int) []write {
	return slices.DeleteFunc(slices.Clone(writes), func(w write) bool { return w.settled != interval })
}

// effects counts creations and deletions.
func effects(writes []write) map[string]int {
	counts := map[string]int{}
	for _, w := range writes {
		if w.effect == "created" || w.effect == "deleted" {
			counts[w.kind+" "+w.object+" was "+w.effect]++
		}
	}
	return counts
}
