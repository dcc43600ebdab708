package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

func TestHeads(t *testing.T) {
	shown := strings.NewReplacer("\x1e", "=", "\x1f", " ")
	long := strings.Repeat("x", 256)
	for _, test := range []struct{ name, file, want string }{
		{"a startup", `[{"binding":"onStartup"}]` + "\n",
			"heads 1\n23\nonStartup     \n ,\"binding\"=\"onStartup\"\nend\n"},
		{"all words", `[{"binding":"a b","type":"Conversion","watchEvent":"w","groupName":"g","fromVersion":"x/v1","toVersion":"v2"}]`,
			"heads 1\n108\na b Conversion w g x/v1 v2\n ,\"binding\"=\"a b\" ,\"type\"=\"Conversion\" ,\"watchEvent\"=\"w\" " +
				",\"groupName\"=\"g\" ,\"fromVersion\"=\"x/v1\" ,\"toVersion\"=\"v2\"\nend\n"},
		{"two contexts", `[{"binding":"a"},{"b":[[1],{"c":true}]}]`,
			"heads 1\n15\na     \n ,\"binding\"=\"a\"\n22\nunknown     \n ,\"b\",0,0=1 ,\"b\",1,\"c\"=true\nend\n"},
		{"no context", "[]\n", "heads 1\nend\n"},
		{"values that jq prints in its own way",
			`[{"a":1.0,"b":1e3,"c":-0,"d":1234567890123456,"e":"\u0001","f":"\\","g":"` + "\x7f" + `","h":"\""}]`,
			"heads 1\n84\nunknown     \n\nend\n"},
		{"values that look different", `[{"a":"\u003c\/\u00e9é","b":-12,"\u003ck":null,"c":"x,y=z"}]`,
			"heads 1\n59\nunknown     \n ,\"a\"=\"</éé\" ,\"b\"=-12 ,\"<k\"=null ,\"c\"=\"x,y=z\"\nend\n"},
		{"a line end in a name", `[{"binding":"a\nb"}]`, "heads 1\n18\na=b     \n\nend\n"},
		{"hidden", `[{"objects":[{"a":1}],"snapshots":{"a":[1]},"deleting":[1],"object":{"managedFields":[1],"objects":[2]}}]`,
			"heads 1\n103\nunknown     \n ,\"object\",\"objects\",0=2\nend\n"},
		{"long", `[{"a":"` + long + `","b":"` + long[1:] + `"}]`, "heads 1\n526\nunknown     \n ,\"b\"=\"" + long[1:] + "\"\nend\n"},
		{"a name twice", `[{"a":{"b":1,"b":2}}]`, ""},
		{"a name twice, differently written", `[{"b":1,"\u0062":2}]`, ""},
		{"a name twice, after the last leaf", `[{"x":0,"many":[` + strings.Repeat("1,", 300) + `1],"y":{"z":1,"z":2}}]`, ""},
		{"not UTF-8", "[{\"a\":\"\xff\"}]", ""},
		{"a word with a mark", `[{"binding":"a\u001fb"}]`, ""},
		{"a word that is none", `[{"binding":1}]`, ""},
		{"spaces", `[ {"a":1}]`, ""},
		{"spaces between", `[{"a":1} ,{"a":1}]`, ""},
		{"spaces at the end", `[{"a":1} ]`, ""},
		{"more", `[{"a":1}]{}`, ""},
		{"no object", `[1]`, ""},
		{"no array", `{"a":1}`, ""},
		{"cut off", `[{"a":1}`, ""},
		{"empty", ``, ""},
	} {
		if got := shown.Replace(string(HeadsOf([]byte(test.file)))); got != test.want {
			t.Errorf("%s: got\n%s, want\n%s", test.name, got, test.want)
		}
	}
	many := string(HeadsOf([]byte(`[{"a":[` + strings.Repeat("1,", 300) + `1],"b":2}]`)))
	if n := strings.Count(many, "\x1e"); n != 200 {
		t.Errorf("%d leaves", n)
	}
}

// TestWriteContextsAndHeads: the heads that are collected while contexts are written equal the heads of the file.
func TestWriteContextsAndHeads(t *testing.T) {
	h := &hook.Hook{
		Schedules: []hook.Schedule{{Binding: hook.Binding{Name: "every\nhour", Group: ""}}, {Binding: hook.Binding{Name: "é", Group: "g"}}},
		Kubernetes: []hook.Kubernetes{{
			Binding: hook.Binding{Name: "pods"}, JQFilter: ".", IncludePrevious: true, KeepFullObjects: true, Finalizer: "a/b",
		}},
		HTTP: []hook.HTTP{{Binding: hook.Binding{Name: "api"}}},
	}
	object := event.Object{
		Namespace: "a", Kind: "Pod", Name: "b", Full: event.Memory(`{"metadata":{"name":"b","managedFields":[{"a":1}]},"spec":{"x":[1,"2"]}}`),
		Filtered: event.Memory(`{"a":"` + strings.Repeat("y", 3000) + `","b":"\u003c"}`),
	}
	list := objects{object, object}
	snapshots := []NamedSnapshot{{Name: "pods", Snapshot: list}, {Name: "none", Snapshot: event.NoObjects{}}}
	contexts := []Context{
		{Event: event.Event{Type: event.Tick, Hook: h}, Snapshots: snapshots},
		{Event: event.Event{Type: event.Tick, Hook: h, Index: 1}},
		{Event: event.Event{Type: event.Synchronization, Hook: h}, Objects: list},
		{Event: event.Event{Type: event.Change, Watch: event.Modified, Hook: h, Object: object}, Previous: &object, Snapshots: snapshots},
		{Event: event.Event{Type: event.HTTP, Hook: h}, Request: &event.Request{ID: "1", Body: []byte(`{"a":1}`), IsJSON: true}},
	}
	for _, form := range []hook.ContextForm{hook.FullContexts, hook.NameContexts} {
		var plain, file bytes.Buffer
		if err := WriteContexts(&plain, form, slices.Values(contexts)); err != nil {
			t.Fatal(err)
		}
		heads, err := WriteContextsAndHeads(&file, form, slices.Values(contexts))
		if err != nil || !bytes.Equal(plain.Bytes(), file.Bytes()) {
			t.Fatalf("%v\n%s", err, file.Bytes())
		}
		if want := HeadsOf(file.Bytes()); len(want) == 0 || !bytes.Equal(heads, want) {
			t.Errorf("got\n%q, want\n%q", heads, want)
		}
	}
	twice := contexts[4]
	twice.Request = &event.Request{ID: "1", Body: []byte(`{"a":1,"a":2}`), IsJSON: true}
	if heads, err := WriteContextsAndHeads(&bytes.Buffer{}, hook.FullContexts, slices.Values([]Context{contexts[0], twice})); heads != nil ||
		err != nil {
		t.Error("a name that is there twice", err, heads)
	}
	if heads, err := WriteContextsAndHeads(full{}, hook.FullContexts, slices.Values(contexts)); heads != nil || err == nil {
		t.Error("a full disk", err, heads)
	}
}
