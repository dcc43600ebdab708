package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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

// A change that the operator has made is no event if nothing else lies between it and what the binding has delivered. It does not matter
// whether the watch or the answer of the API server comes first.
func TestOwnChanges(t *testing.T) {
	for name, c := range map[string]struct {
		// steps are: a version that the watch delivers, x for a deletion, "follow", and "BEFORE>AFTER" for the answer to a change; ">" is no
		// change.
		steps, want string
	}{
		"the answer comes first":             {"follow 1>2 2 3", "Modified 3"},
		"the watch comes first":              {"follow 2 1>2 3", "Modified 3"},
		"another change lies between":        {"2 follow 2>4 3 4", "Modified 2, Modified 3, Modified 4"},
		"it was delivered before the answer": {"follow 2 2>3 3", "Modified 2"},
		"a list skips what lies between":     {"follow 2>3 3", "Modified 3"},
		"no change":                          {"follow > 2", "Modified 2"},
		"a change without an effect":         {"follow 1>1 2", "Modified 2"},
		"two at the same time":               {"follow follow 2 1>2 3 2>3 4", "Modified 4"},
		"two after each other":               {"follow 1>2 follow 2>3 2 3 4", "Modified 4"},
		"deleted before the answer":          {"follow 2 x 1>2 5", "Modified 2, Deleted 2, Added 5"},
		"deleted after the answer":           {"follow 1>2 x", "Deleted 1"},
		"an older version comes late":        {"follow 2>3 2 3 4", "Modified 2, Modified 4"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{
				Binding: hook.Binding{Name: "b"}, Kind: "ConfigMap", KeepFullObjects: true, Added: true, Modified: true, Deleted: true,
			}}}
			res := kube.Resource{Kind: "ConfigMap", Namespaced: true}
			sink := &seenSink{}
			s := NewSimulation(SimulationOptions{JQ: jq.NewCompiler(jq.Options{}), Sink: sink, Failures: sink,
				Resolve: func(string, string) (kube.Resource, error) { return res, nil }})
			object := func(version string) []byte {
				return fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"%s"}}`, version)
			}
			live := "1"
			set := func() {
				if err := s.Set(t.Context(), res, object(live)); err != nil {
					t.Fatal(err)
				}
			}
			set()
			if err := s.Enable(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			s.Unlock(h, 0)
			var answers []func(before, after string)
			for step := range strings.FieldsSeq(c.steps) {
				before, after, isAnswer := strings.Cut(step, ">")
				switch {
				case step == "follow":
					_, written := s.Follow(h, 0, "n", "a")
					answers = append(answers, written)
				case step == "x":
					if err := s.Remove(t.Context(), res, object(live)); err != nil {
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
			if got := strings.Join(sink.events, ", "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if own := s.monitors[address{h, 0}].own; len(own) > 0 {
				t.Errorf("left: %+v", own)
			}
		})
	}
}

// What the binding has is not used while a change of the operator has not reached it: the object would look as before.
func TestFollowKnows(t *testing.T) {
	h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Kind: "ConfigMap", KeepFullObjects: true}}}
	res := kube.Resource{Kind: "ConfigMap", Namespaced: true}
	s := NewSimulation(SimulationOptions{JQ: jq.NewCompiler(jq.Options{}), Sink: &seenSink{}, Failures: &seenSink{},
		Resolve: func(string, string) (kube.Resource, error) { return res, nil }})
	set := func(version string) {
		if err := s.Set(t.Context(), res,
			[]byte(`{"kind":"ConfigMap","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"`+version+`"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	if err := s.Enable(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func()
		known  bool
	}{{func() {}, true}, {func() {}, false}, {func() { set("2") }, true}} {
		step.change()
		known, written := s.Follow(h, 0, "n", "a")
		if (known != nil) != step.known {
			t.Errorf("known %s", known)
		}
		if step.known {
			written("1", "2")
		} else {
			written("", "")
		}
	}
	if known, _ := s.Follow(h, 0, "n", "other"); known != nil {
		t.Errorf("known %s", known)
	}
}
