package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Whatever names and objects there are, hooks read JSON, and in it what was meant; nothing in a name gets out of its
// text.
func FuzzWriteContexts(f *testing.F) {
	f.Add("pods", "group", "shop", "web", "Pod", `{"a":1}`, "x", byte(0))
	f.Add(`"},{"binding":"other`, "\x00\u2028</script>", "\\", "\"", "\n", `[]`, "null", byte(7))
	f.Add("ü☃🙂", "", "", `$(id)`, "'", `"text"`, "1", byte(18))
	f.Add("\xff", "\xff", "\xff", "\xff", "\xff", "{}", "", byte(1))
	f.Fuzz(func(t *testing.T, binding, group, namespace, name, kind, full, filtered string, which byte) {
		for _, text := range []string{binding, group, namespace, name, kind} {
			if !utf8.ValidString(text) {
				t.Skip() // they come out of JSON
			}
		}
		object := event.Object{Namespace: namespace, Name: name, Kind: kind}
		if json.Valid([]byte(full)) {
			object.Full = event.Memory(full)
		}
		if json.Valid([]byte(filtered)) {
			object.Filtered = event.Memory(filtered)
		}
		b := hook.Binding{Name: binding, Group: group}
		h := &hook.Hook{Kubernetes: []hook.Kubernetes{{Binding: b}}, Schedules: []hook.Schedule{{Binding: b}}}
		ev := event.Event{Type: []event.Type{event.Tick, event.Synchronization, event.Change}[which%3], Hook: h,
			Watch: event.Watch(1 + which/3%3), Object: object}
		c := Context{Event: ev, Snapshots: []NamedSnapshot{{binding, objects{object}}, {name + "x" + binding, event.NoObjects{}}}}
		if ev.Type == event.Synchronization {
			c.Objects = objects{object, object}
		}
		form := hook.FullContexts
		if which >= 9 {
			form = hook.NameContexts
		}
		var out bytes.Buffer
		if err := WriteContexts(&out, form, slices.Values([]Context{c, c})); err != nil {
			t.Fatal(err)
		}
		var got []map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 2 {
			t.Fatalf("%d contexts, error %v: %s", len(got), err, out.Bytes())
		}
		for field, want := range map[string]string{"binding": binding, "groupName": group, "resourceName": name, "resourceNamespace": namespace,
			"resourceKind": kind} {
			if text, ok := got[1][field]; ok && text != want {
				t.Errorf("%s is %q, want %q", field, text, want)
			}
		}
		if got[0]["binding"] == nil && got[0]["groupName"] == nil {
			t.Errorf("a context without a binding: %s", out.Bytes())
		}
	})
}
