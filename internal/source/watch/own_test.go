package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// seenSink keeps the events.
type seenSink struct {
	silence
	events []string
}

func (s *seenSink) Event(ev event.Event) {
	text, _ := ev.Object.Full.Bytes()
	_, version, _ := strings.Cut(string(text), `"resourceVersion":"`)
	version, _, _ = strings.Cut(version, `"`)
	s.events = append(s.events, ev.Watch.String()+" "+version)
}

// owned is a binding that ignores own changes, with one object.
type owned struct {
	*Simulation
	sink *seenSink
	hook *hook.Hook
	res  kube.Resource
	t    testing.TB
}

func newOwned(t testing.TB, version string) *owned {
	o := &owned{sink: &seenSink{}, t: t, res: kube.Resource{Kind: "ConfigMap", Namespaced: true}, hook: &hook.Hook{Name: "h",
		Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Kind: "ConfigMap", KeepFullObjects: true, Added: true, Modified: true,
			Deleted: true, IgnoreOwn: true}}}}
	o.Simulation = NewSimulation(SimulationOptions{JQ: jq.NewCompiler(jq.Options{}), Sink: o.sink, Meter: o.sink,
		Resolve: func(string, string) (kube.Resource, error) { return o.res, nil }})
	o.set(version)
	if err := o.Enable(context.Background(), o.hook); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *owned) object(version string) []byte {
	return fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"%[1]s",`+
		`"generation":%[1]s}}`, version)
}

func (o *owned) set(version string) {
	if err := o.Set(context.Background(), o.res, o.object(version)); err != nil {
		o.t.Fatal(err)
	}
}

// Two clients change one object, with and without effect, while the watch is late, and skips versions. Each change of the other client is
// in an event: of its version, or of the next one that the watch delivers. No change of the hook is in an event if the watch skips nothing,
// and the hook has seen the generation of the last event. (Each version has a generation of the same number.)
func TestTwoWriters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		live, delivered := 1, map[int]bool{1: true} // versions
		o := newOwned(t, "1")
		o.Unlock(o.hook, 0)
		others, before := map[int]bool{}, map[int]int{} // versions of the other client; of the hook, with that before
		var pending []int                               // the watch has not delivered
		type request struct {
			known, after string
			sent         bool
			written      func(before, after string)
		}
		var requests []*request
		send := func(r *request, effective bool) {
			if r.sent = true; r.known != fmt.Sprint(live) { // a conflict: it is sent again without a version
				r.known = ""
			}
			if effective {
				if r.known != "" {
					before[live+1] = live
				}
				live++
				pending = append(pending, live)
			}
			r.after = fmt.Sprint(live)
		}
		answer := func() {
			r := requests[0]
			if requests = requests[1:]; !r.sent {
				send(r, true)
			}
			if r.known == "" {
				r.after = ""
			}
			r.written(r.known, r.after)
		}
		// unseen checks that from the generation that the hook sees all changes are its own.
		unseen := func(known effect.Known) string {
			for v := int(known.Generation) + 1; v <= live && known.Generation > 0 && known.Version == fmt.Sprint(live); v++ {
				if before[v] == 0 {
					return fmt.Sprintf("version %d is not seen, known is %+v, events %q", v, known, o.sink.events)
				}
			}
			return ""
		}
		deliver := func(skip int) {
			v := pending[skip]
			pending, delivered[v] = pending[skip+1:], true
			o.set(fmt.Sprint(v))
		}
		for _, step := range rapid.SliceOfN(rapid.SampledFrom(strings.Fields("other begin read send idle answer answer deliver deliver list")), 1,
			40).Draw(rt, "steps") {
			switch {
			case step == "other":
				live++
				others[live] = true
				pending = append(pending, live)
			case step == "begin" || step == "read":
				known, written := o.Own(o.hook, "", "", "n", "a", func(int) bool { return true })
				if problem := unseen(known); problem != "" {
					rt.Fatal(problem)
				}
				if step == "read" { // from the API server
					known.Version = fmt.Sprint(live)
				}
				requests = append(requests, &request{known: known.Version, written: written})
			case (step == "send" || step == "idle") && len(requests) > 0 && !requests[0].sent:
				send(requests[0], step == "send")
			case step == "answer" && len(requests) > 0:
				answer()
			case step == "deliver" && len(pending) > 0:
				deliver(0)
			case step == "list" && len(pending) > 0:
				deliver(len(pending) - 1)
			}
		}
		for len(requests) > 0 {
			answer()
		}
		for len(pending) > 0 {
			deliver(0)
		}
		for v := 2; v <= live; v++ {
			next := v
			for !delivered[next] {
				next++
			}
			isEvent := slices.Contains(o.sink.events, fmt.Sprint("Modified ", next))
			if b, own := before[v]; others[v] && !isEvent || own && delivered[v] && delivered[b] && isEvent {
				rt.Fatalf("version %d, of the other client: %t; events %q", v, others[v], o.sink.events)
			}
		}
		if left := o.monitors[address{o.hook, 0}].own.changes; len(left) > 0 {
			rt.Fatalf("left: %+v", left)
		}
		known, _ := o.Own(o.hook, "", "", "n", "a", func(int) bool { return true })
		last := "Modified 1"
		if n := len(o.sink.events); n > 0 {
			last = o.sink.events[n-1]
		}
		if problem := unseen(known); problem != "" || known.Version != fmt.Sprint(live) || fmt.Sprint("Modified ", known.Generation) != last {
			rt.Fatalf("in the end %+v is known, the last event is %s: %s", known, last, problem)
		}
	})
}

// A change that the operator has made is no event if nothing else lies between it and what the binding has delivered. It does not matter
// whether the watch or the answer of the API server comes first.
func TestOwnChanges(t *testing.T) {
	for name, c := range map[string]struct {
		// steps are: a version that the watch delivers, x for a deletion, "follow", and "BEFORE>AFTER" for the answer to a change; ">" is no
		// change.
		steps, want string
	}{
		"two at the same time":        {"follow follow 2 1>2 3 2>3 4", "Modified 4"},
		"deleted before the answer":   {"follow 2 x 1>2 5", "Modified 2, Deleted 2, Added 5"},
		"deleted after the answer":    {"follow 1>2 x", "Deleted 1"},
		"an older version comes late": {"follow 2>3 2 3 4", "Modified 2, Modified 4"},
	} {
		t.Run(name, func(t *testing.T) {
			live := "1"
			o := newOwned(t, live)
			set := func() { o.set(live) }
			o.Unlock(o.hook, 0)
			var answers []func(before, after string)
			for step := range strings.FieldsSeq(c.steps) {
				before, after, isAnswer := strings.Cut(step, ">")
				switch {
				case step == "follow":
					_, written := o.Follow(o.hook, 0, "n", "a")
					answers = append(answers, written)
				case step == "x":
					if err := o.Remove(t.Context(), o.res, o.object(live)); err != nil {
						t.Fatal(err)
					}
				case isAnswer:
					answers[0](before, after)
					answers = slices.Delete(answers, 0, 1)
				default:
					live = step
					set()
				}
			}
			if got := strings.Join(o.sink.events, ", "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if own := o.monitors[address{o.hook, 0}].own.changes; len(own) > 0 {
				t.Errorf("left: %+v", own)
			}
		})
	}
}

// With conditions, a new generation is an event unless the run reports it, whatever comes first.
func TestOwnGenerations(t *testing.T) {
	for _, row := range []struct {
		condition string
		reported  bool
		want      string
	}{{"Ready", true, ""}, {"Ready", false, "Modified 2"}, {"", false, ""}} {
		for _, watchIsFirst := range []bool{true, false} {
			o := newOwned(t, "1")
			o.hook.Kubernetes[0].Condition = row.condition
			o.Unlock(o.hook, 0)
			_, written := o.Own(o.hook, "", "", "n", "a", func(int) bool { return row.reported })
			if watchIsFirst {
				o.set("2")
			}
			written("1", "2")
			o.set("2")
			if got := strings.Join(o.sink.events, ", "); got != row.want {
				t.Errorf("%+v, the watch is first %t: %s", row, watchIsFirst, got)
			}
		}
	}
}

// What the binding has is not used while a change of the operator has not reached it: the object would look as before.
func TestFollowKnows(t *testing.T) {
	s := newOwned(t, "1")
	for _, step := range []struct {
		change func()
		known  bool
	}{{func() {}, true}, {func() {}, false}, {func() { s.set("2") }, true}} {
		step.change()
		known, written := s.Follow(s.hook, 0, "n", "a")
		if (known != nil) != step.known {
			t.Errorf("known %s", known)
		}
		if step.known {
			written("1", "2")
		} else {
			written("", "")
		}
	}
	if known, _ := s.Follow(s.hook, 0, "n", "other"); known != nil {
		t.Errorf("known %s", known)
	}
}

// An API server that was set back between the read and the write of a change gives versions again.
func TestOwnChangesInACircle(t *testing.T) {
	c := &ownChanges{last: "10", made: map[string]ownChange{"10": {before: "9"}, "9": {before: "10"}}}
	if c.follows("8") {
		t.Error("the changes follow a version that they do not know")
	}
	c.made = map[string]ownChange{"10": {before: "9"}, "9": {before: "8"}}
	for version, want := range map[string]bool{"10": true, "9": true, "8": true, "7": false} {
		if c.follows(version) != want {
			t.Errorf("follows %s: %t", version, !want)
		}
	}
}

// A change of another client that has waited for a request of the operator is withheld by the other passes as any other change.
func TestWaitingChangeMeetsOtherPasses(t *testing.T) {
	for name, withheld := range map[string]func(*owned){
		"its type": func(o *owned) { o.hook.Kubernetes[0].Modified = false },
		"muted":    func(o *owned) { o.monitors[address{o.hook, 0}].mute() },
	} {
		o := newOwned(t, "1")
		o.Unlock(o.hook, 0)
		_, written := o.Follow(o.hook, 0, "n", "a")
		o.set("2")
		withheld(o)
		if written("", ""); len(o.sink.events) > 0 {
			t.Errorf("%s: %q", name, o.sink.events)
		}
	}
}
