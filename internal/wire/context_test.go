package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// objects is a Snapshot.
type objects []event.Object

func (s objects) Len() int { return len(s) }

func (s objects) Each(yield func(event.Object) bool) {
	for _, o := range s {
		if !yield(o) {
			return
		}
	}
}

// kept is an object of which the binding keeps the texts that are not empty.
func kept(full, filtered string) event.Object {
	o := event.Object{Namespace: "shop", Name: "web", Kind: "Pod"}
	if full != "" {
		o.Full = event.Memory(full)
	}
	if filtered != "" {
		o.Filtered = event.Memory(filtered)
	}
	return o
}

// shapes are the objects of the four combinations of jqFilter and keepFullObjectsInMemory.
var shapes = objects{kept(`{"a":1}`, ""), kept(`{"a":1}`, `"x"`), kept("", "null"), kept("", "")}

// At 0 are bindings without a group, at 1 with one.
var testHook = hook.Hook{
	Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "tick"}}, {Binding: hook.Binding{Name: "tock", Group: "g"}}},
	Kubernetes: []hook.Kubernetes{
		{Binding: hook.Binding{Name: "pods"}}, {Binding: hook.Binding{Name: "nodes", Group: "g"}},
		{Binding: hook.Binding{Name: "\"<ü>\"\n\x00\u2028"}},
		{Binding: hook.Binding{Name: "both"}, IncludePrevious: true, JQFilter: ".", KeepFullObjects: true},
		{Binding: hook.Binding{Name: "slim"}, IncludePrevious: true, JQFilter: "."},
	},
	Validating: []hook.Admission{{Binding: hook.Binding{Name: "deny.example.com"}},
		{Binding: hook.Binding{Name: "grouped.example.com", Group: "g"}}},
	Mutating:    []hook.Admission{{Binding: hook.Binding{Name: "change.example.com"}}},
	Conversions: []hook.Conversion{{Binding: hook.Binding{Name: "up"}}},
	HTTP:        []hook.HTTP{{Binding: hook.Binding{Name: "get"}}, {Binding: hook.Binding{Name: "put", Group: "g"}}},
}

// TestWriteContexts compares the contexts of all kinds of events with testdata/contexts.golden.
func TestWriteContexts(t *testing.T) {
	of := func(kind event.Type, index int) event.Event {
		return event.Event{Type: kind, Hook: &testHook, Index: index}
	}
	change := func(index int, w event.Watch, o event.Object) event.Event {
		e := of(event.Change, index)
		e.Watch, e.Object = w, o
		return e
	}
	snapshots := []NamedSnapshot{{"z", shapes}, {"empty", event.NoObjects{}}}
	var all strings.Builder
	for _, tt := range []struct {
		name string
		form hook.ContextForm
		in   []Context
	}{
		{"onStartup", hook.FullContexts, []Context{{Event: of(event.Startup, 0)}}},
		{"schedule", hook.FullContexts, []Context{{Event: of(event.Tick, 0)}}},
		{"requeues: of an object, of a tick, of a group", hook.FullContexts, []Context{{Event: change(0, event.Requeued,
			shapes[1])}, {Event: event.Event{Type: event.Tick, Hook: &testHook, Watch: event.Requeued}, Snapshots: snapshots},
			{Event: change(1, event.Requeued, event.Object{})}}},
		{"what was before", hook.FullContexts, []Context{{Event: change(3, event.Modified, kept(`{"a":2}`, `"y"`)),
			Previous: &shapes[1]}, {Event: change(3, event.Deleting, kept(`{"a":2}`, `"y"`)), Previous: &shapes[1]},
			{Event: change(3, event.Deleted, kept(`{"a":2}`, `"y"`))}, {Event: change(3, event.Added, shapes[1]),
				Previous: &shapes[1]}, {Event: change(3, event.Requeued, shapes[1]), Previous: &shapes[1]}, {Event: change(4,
				event.Modified, kept("", `"y"`)), Previous: &shapes[2]}}},
		{"validating", hook.FullContexts, []Context{{Event: of(event.Validating, 0), Review: []byte(`{"request":{"uid":"1"}}`)}}},
		{"validating in a group: it only gains snapshots", hook.FullContexts, []Context{{Event: of(event.Validating, 1),
			Review: []byte(`{}`), Snapshots: snapshots}}},
		{"mutating", hook.FullContexts, []Context{{Event: of(event.Mutating, 0), Review: []byte(`{"request":{}}`)}}},
		{"conversion", hook.FullContexts, []Context{{Event: of(event.Conversion, 0), Review: []byte(`{"request":{}}`),
			Step: hook.ConversionStep{From: "v1alpha1", To: "acme.dev/v1"}}}},
		{"request: all there is", hook.FullContexts, []Context{{Event: of(event.HTTP, 0), Request: &event.Request{ID: "7",
			Method: "PUT", Path: "/a/ü", PathValues: map[string]string{"y": "ü", "x": "a"},
			Query: map[string][]string{"q": {"1", ""}}, Headers: map[string][]string{"Content-Type": {"application/json"}},
			Body: []byte(` {"b": 1.0}`), IsJSON: true, User: &event.User{Name: "eve", UID: "u", Groups: []string{"g"},
				Extra: map[string][]string{"k": {"v"}}}}}}},
		{"request: nothing but a route, in a group: it only gains snapshots", hook.FullContexts,
			[]Context{{Event: of(event.HTTP, 1), Request: &event.Request{ID: "7", Method: "GET", Path: "/"}, Snapshots: snapshots}}},
		{"request: not text", hook.FullContexts, []Context{{Event: of(event.HTTP, 0), Request: &event.Request{ID: "7",
			Method: "POST", Path: "/", Body: []byte{0xff, 0}}}}},
		{"schedule with snapshots", hook.FullContexts, []Context{{Event: of(event.Tick, 0), Snapshots: snapshots}}},
		{"requeues", hook.FullContexts, []Context{{Event: change(0, event.Requeued, kept(`{"a":1}`, `"x"`))},
			{Event: change(1, event.Requeued, event.Object{})}, {Event: event.Event{Type: event.Tick, Hook: &testHook,
				Watch: event.Requeued}, Snapshots: snapshots}, {Event: event.Event{Type: event.Synchronization, Hook: &testHook,
				Watch: event.Requeued}, Objects: shapes}}},
		{"synchronization", hook.FullContexts, []Context{{Event: of(event.Synchronization, 0), Objects: shapes}}},
		{"synchronization of nothing", hook.FullContexts, []Context{{Event: of(event.Synchronization, 0),
			Objects: event.NoObjects{}}}},
		{"synchronization with snapshots", hook.FullContexts, []Context{{Event: of(event.Synchronization, 0),
			Objects: event.NoObjects{}, Snapshots: snapshots}}},
		{"change: full object", hook.FullContexts, []Context{{Event: change(0, event.Added, shapes[0])}}},
		{"change: object and filter result", hook.FullContexts, []Context{{Event: change(0, event.Modified, shapes[1])}}},
		{"change: filter result null", hook.FullContexts, []Context{{Event: change(0, event.Deleted, shapes[2]),
			Snapshots: snapshots}}},
		{"change: neither", hook.FullContexts, []Context{{Event: change(0, event.Added, shapes[3])}}},
		{"group without kubernetes bindings", hook.FullContexts, []Context{{Event: of(event.Tick, 1)}}},
		{"group: tick, synchronization and change look the same", hook.FullContexts, []Context{{Event: of(event.Tick, 1),
			Snapshots: snapshots[1:]}, {Event: of(event.Synchronization, 1), Objects: shapes, Snapshots: snapshots[1:]},
			{Event: change(1, event.Added, shapes[1]), Snapshots: snapshots[1:]}}},
		{"order is kept", hook.FullContexts, []Context{{Event: change(0, event.Deleted, shapes[2])}, {Event: of(event.Tick,
			0)}, {Event: change(0, event.Added, shapes[2])}}},
		{"special characters", hook.FullContexts, []Context{{Event: of(event.Synchronization, 2),
			Objects: event.NoObjects{}, Snapshots: []NamedSnapshot{{"a\"b\\\t", event.NoObjects{}}}}}},
		{"objects are copied as they are", hook.FullContexts, []Context{{Event: change(0, event.Added,
			kept(`{"z": 1.0, "a":"\u003c"}`, "9007199254740993"))}}},
		{"no contexts", hook.FullContexts, nil},
		{"v0 onStartup", hook.NameContexts, []Context{{Event: of(event.Startup, 0)}}},
		{"v0 schedule", hook.NameContexts, []Context{{Event: of(event.Tick, 0)}}},
		{"v0 changes", hook.NameContexts, []Context{{Event: change(0, event.Added, kept("", ""))}, {Event: change(0,
			event.Modified, kept(`{"a":1}`, `"x"`))}, {Event: change(0, event.Deleted, event.Object{Name: "n1", Kind: "Node"})}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := WriteContexts(&got, tt.form, slices.Values(tt.in)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&all, "# %s\n%s\n", tt.name, &got)
			var contexts []json.RawMessage
			if err := json.Unmarshal(got.Bytes(), &contexts); err != nil {
				t.Fatal(err)
			}
			for _, c := range contexts {
				validates(t, "binding-context", c)
			}
		})
	}
	golden.Compare(t, "testdata/contexts.golden", all.String())
}

// lost is a payload that cannot be read back.
type lost struct{}

func (lost) Len() int               { return 1 }
func (lost) Bytes() ([]byte, error) { return nil, errors.New("disk is gone") }

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteContextsFails(t *testing.T) {
	ev := event.Event{Type: event.Change, Hook: &testHook, Watch: event.Added}
	bad := event.Event{Type: event.Tick, Hook: &hook.Hook{Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "\xff"}}}}}
	ev.Object.Full = lost{}
	for _, tt := range []struct {
		name string
		w    io.Writer
		in   Context
		want string
	}{
		{"object", io.Discard, Context{Event: ev}, "cannot read back object of a waiting event: disk is gone"},
		{
			"snapshot", io.Discard,
			Context{
				Event:     event.Event{Type: event.Tick, Hook: &testHook},
				Snapshots: []NamedSnapshot{{"s", objects{kept("", "1"), {Filtered: lost{}}, {Full: lost{}}}}},
			},
			"cannot read back filterResult of a waiting event: disk is gone",
		},
		{"not UTF-8", io.Discard, Context{Event: bad}, "as JSON"},
		{"writer", full{}, Context{Event: event.Event{Type: event.Startup, Hook: &testHook}}, "no space left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := WriteContexts(tt.w, hook.FullContexts, slices.Values([]Context{tt.in}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
