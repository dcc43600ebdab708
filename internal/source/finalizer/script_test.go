package finalizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestScripts runs the files in testdata, in the format of package watch. Commands are:
//
//	binding B [Added]       a binding with a finalizer and objects of its own; Added is its only type of events
//	list B OBJECT…          its initial list
//	set B OBJECT            an object is new or different
//	delete B OBJECT         an object was deleted, or has left the selectors
//	snapshot B              show the objects
//	synchronize B           show the objects, as a Synchronization does
//	unlock B                the Synchronization was delivered
//	announce B              let each object be added
//	mute B                  its hook is changed
//	finalize B              the finalizer is added to its objects; shows the requests
//	requests B              shows the requests, also those that wait for a delay
//	added B NAME            the request to add it has succeeded; the watch follows
//	failed B NAME WHY       the request to add it has failed: forbidden, missing, other
//	removed B OBJECT        the answer to the request to remove it
//	release B WATCH OBJECT  a run with this event has succeeded; the finalizer is removed in version 50
//
// An object is NAMESPACE/NAME#UID@VERSION:TEXT. NAME+f has the finalizer, NAME+d is being deleted.
func TestScripts(t *testing.T) {
	golden.Scripts(t, "testdata/*.txt", func(t *testing.T, text string) string {
		w := &world{t: t, bindings: map[string]*binding{}}
		return golden.Blocks(text, w.do, func() string {
			defer func() { w.happened = nil }()
			return strings.Join(w.happened, "")
		})
	})
}

// world has bindings, each with objects of its own.
type world struct {
	t        *testing.T
	bindings map[string]*binding
	happened []string
}

// binding is the Sink of its events.
type binding struct {
	watch.NoMeter
	*world
	name    string
	hook    *hook.Hook
	objects *watch.Simulation
	gate    *gate
	// todo has the requests, sent are those without an answer, by key.
	todo requests
	sent map[string]*change
}

var thing = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"},
	Kind: "Thing", Namespaced: true}

const bindingsFinalizer = "example.com/f"

func (w *world) log(text string, args ...any) {
	w.happened = append(w.happened, fmt.Sprintf(text+"\n", args...))
}

func (w *world) binding(name string, onlyAdded bool) *binding {
	b := &binding{world: w, name: name, todo: undelayed{workqueue.NewTyped[finalizerChange]()}, sent: map[string]*change{}}
	b.hook = &hook.Hook{Name: name, Kubernetes: []hook.Kubernetes{{
		Kind: thing.Kind, Added: true, Modified: !onlyAdded, Deleted: !onlyAdded, KeepFullObjects: true, Finalizer: bindingsFinalizer,
	}}}
	b.objects = watch.NewSimulation(watch.SimulationOptions{JQ: jq.NewCompiler(jq.Options{}), Sink: b, Meter: b,
		Resolve: func(string, string) (kube.Resource, error) { return thing, nil },
		Guard: func(s *watch.Shelf) watch.Guard {
			b.gate = Options{}.gate(s)
			b.gate.remove = func(_ context.Context, o kube.Finalized) ([]byte, error) {
				b.log("%s: remove %s/%s %s", b.name, o.Namespace, o.Name, o.UID)
				return text(fmt.Sprintf("%s/%s#%s@50", o.Namespace, o.Name, o.UID)).JSON, nil
			}
			return struct{ watch.Guard }{b.gate} // without Settle: the script does that
		}})
	return b
}

func (w *world) do(words []string) {
	command, name, args := words[0], words[1], words[2:]
	b := w.bindings[name]
	var err error
	switch command {
	case "binding":
		w.bindings[name] = w.binding(name, len(args) > 0)
	case "list":
		for _, arg := range args {
			err = errors.Join(err, b.objects.Set(w.t.Context(), thing, text(arg).JSON))
		}
		err = errors.Join(err, b.objects.Enable(w.t.Context(), b.hook))
	case "set":
		err = b.objects.Set(w.t.Context(), thing, text(args[0]).JSON)
	case "delete":
		err = b.objects.Remove(w.t.Context(), thing, text(args[0]).JSON)
	case "snapshot":
		b.show(b.objects.Snapshot(b.hook, 0))
	case "synchronize":
		b.show(b.objects.Synchronize(b.hook, 0))
	case "unlock":
		b.objects.Unlock(b.hook, 0)
	case "announce":
		b.objects.Announce(b.hook, 0)
	case "mute":
		b.objects.Mute(b.hook)
	case "finalize":
		b.gate.close(b.todo)
		b.send()
	case "requests":
		b.send()
	case "added":
		b.answer(args[0], nil, nil)
	case "removed":
		b.answer(args[0], text(args[0]).JSON, nil)
	case "failed":
		b.answer(args[0], nil, map[string]error{
			"forbidden": apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New(`User "x" cannot patch resource "things"`)),
			"missing":   apierrors.NewNotFound(schema.GroupResource{}, "a"),
			"other":     errors.New("the webhook denied it"),
		}[args[1]])
	case "release":
		o := text(args[1])
		b.gate.release(w.t.Context(), &event.Event{Watch: map[string]event.Watch{"Deleting": event.Deleting, "Deleted": event.Deleted}[args[0]],
			Object: event.Object{Namespace: o.Namespace, Name: o.Name, UID: o.UID}})
	default:
		w.t.Fatalf("unknown command %q", command)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// send shows the requests that the gate sends.
func (b *binding) send() {
	for b.todo.Len() > 0 {
		r, _ := b.todo.Get()
		b.todo.Done(r)
		c := b.gate.due(r)
		if c == nil {
			continue
		}
		verb := map[bool]string{true: "remove", false: "add"}[r.remove]
		b.log("%s: %s %s/%s %s", b.name, verb, c.object.Namespace, c.object.Name, c.object.UID)
		b.sent[r.key] = c
	}
}

// answer answers the request about an object.
func (b *binding) answer(object string, body []byte, err error) {
	key := text(object).Key
	c := b.sent[key]
	if c == nil {
		b.t.Fatalf("%s: no request about %q", b.name, key)
	}
	if delete(b.sent, key); c.remove {
		b.gate.answeredRemoval(c, body, err)
	} else {
		b.gate.binding.Update(func() { b.gate.answeredAdd(c, err) })
	}
}

// undelayed is a queue without delays.
type undelayed struct {
	*workqueue.Typed[finalizerChange]
}

func (q undelayed) AddAfter(r finalizerChange, _ time.Duration) { q.Add(r) }
func (q undelayed) AddRateLimited(r finalizerChange)            { q.Add(r) }
func (undelayed) Forget(finalizerChange)                        {}
func (undelayed) NumRequeues(finalizerChange) int               { return 0 }

// text reads NAMESPACE/NAME+FLAGS#UID@VERSION:TEXT, and returns an object with its JSON.
func text(arg string) *stream.Object {
	id, content, _ := strings.Cut(arg, ":")
	id, version, _ := strings.Cut(id, "@")
	id, uid, _ := strings.Cut(id, "#")
	id, flags, _ := strings.Cut(id, "+")
	namespace, name, _ := strings.Cut(id, "/")
	lifetime := ""
	if strings.Contains(flags, "f") {
		lifetime += fmt.Sprintf(`,"finalizers":["example.com/other",%q]`, bindingsFinalizer)
	}
	if strings.Contains(flags, "d") {
		lifetime += `,"deletionTimestamp":"2026-01-02T03:04:05Z"`
	}
	return &stream.Object{Key: stream.KeyOf(namespace, name), Namespace: namespace, Name: name, UID: uid, JSON: fmt.Appendf(nil,
		`{"kind":"Thing","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q%s},"text":%q}`,
		namespace, name, uid, version, lifetime, content)}
}

func (b *binding) show(s event.Snapshot) {
	texts := map[string]string{}
	s.Each(func(o event.Object) bool {
		texts[o.Name] = b.describe(o)
		return true
	})
	b.log("%s: [%s]", b.name, strings.Join(slices.Sorted(maps.Values(texts)), ", "))
}

func (b *binding) describe(o event.Object) string {
	full, _ := o.Full.Bytes()
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(full, &object); err != nil {
		b.t.Errorf("the full object is %q: %v", full, err)
	}
	described := o.Namespace + "/" + o.Name + "@" + object.Metadata.ResourceVersion
	if o.Deleting {
		described += " (deleting)"
	}
	return described
}

var _ watch.Sink = (*binding)(nil)

func (b *binding) Event(ev event.Event) {
	described := b.describe(ev.Object)
	if ev.Initial {
		described += " (initial)"
	}
	if ev.Object.UID != "" {
		described += " (its run removes the finalizer)"
	}
	b.log("%s: %s %s", b.name, ev.Watch, described)
}
func (b *binding) Keep(content []byte) event.Payload  { return event.Memory(content) }
func (b *binding) Objects(*hook.Hook, int, int)       {}
func (b *binding) Gone(*hook.Hook, int, event.Object) {}
