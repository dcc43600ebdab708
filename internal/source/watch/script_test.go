package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestScripts runs the files in testdata/script. A file has blocks, with an empty line between them:
//
//	# a comment
//	list pods x/a:one
//	unlock b
//	set pods x/a:two
//	----
//	b: Modified x/a@2 "two"
//
// Above the dashes are commands, below is what came of them. Commands are:
//
//	binding B [OPTION…]     a kubernetes binding; options see below
//	join B STREAM…          it subscribes to streams; the first set waits for all of them
//	leave B STREAM          it wants no more
//	list STREAM[@V] OBJECT… the reflector has made a complete list, of version V
//	ask STREAM              a list begins for the bindings that joined later
//	late STREAM@V OBJECT…   it has version V
//	set STREAM OBJECT       an object is new or different
//	delete STREAM OBJECT    an object was deleted
//	relist STREAM           the reflector begins a list
//	stop STREAM             what its reflector still does is in vain
//	snapshot B              show the set
//	synchronize B           show the set, as a Synchronization does
//	state B                 show what is known of it
//	failures B              show the records of its failing filter, and for how many objects it fails
//	executed B              its hook is run
//	unlock B                the Synchronization was delivered
//	announce B              let each object be added
//	lead B                  it was a standby and leads now
//	mute B                  its hook is changed
//
// An object is NAMESPACE/NAME:TEXT, without namespace when it is cluster-scoped. It has version 1, 2, … with each mention, or the one of
// OBJECT@VERSION, and the uid of NAME#UID. NAME+d is being deleted, NAME+g3 has generation 3. The text is its
// field .text, which the filter of a binding with the option jq takes; it fails on "bad". Other options are names=a,b and in=x,y, which
// narrow the stream, events=Added,Deleted, slim (no full objects), conditions, key=KEY of the queue, group and standby.
//
// Events show the version of the full object, if it is kept, the result of the filter, if there is one, and the key.
func TestScripts(t *testing.T) {
	golden.Scripts(t, "testdata/script/*.txt", runScript)
}

func runScript(t *testing.T, text string) string {
	w := newStage(t)
	return golden.Blocks(text, w.do, func() string {
		all := strings.Join(w.happened, "")
		w.happened = nil
		return all
	})
}

// stage has bindings and streams without an API server.
type stage struct {
	t        *testing.T
	compiler *jq.Compiler
	bindings map[string]*staged
	feeds    map[string]*stream.Manual
	contexts map[string]context.Context
	stops    map[string]context.CancelFunc
	version  int
	happened []string
	// order has the bindings as they were declared.
	order []*staged
}

// staged is a binding and its subscriptions by stream. It is the Sink of its events.
type staged struct {
	silence
	*stage
	name         string
	monitor      *monitor
	only, onlyIn map[string]bool
	subs         map[string]*stream.Subscription
	filled       bool

	logged   bytes.Buffer
	mu       sync.Mutex
	happened []string
}

func newStage(t *testing.T) *stage {
	return &stage{
		t: t, compiler: jq.NewCompiler(jq.Options{}),
		bindings: map[string]*staged{}, feeds: map[string]*stream.Manual{},
		contexts: map[string]context.Context{}, stops: map[string]context.CancelFunc{},
	}
}

func (w *stage) log(text string, args ...any) {
	w.happened = append(w.happened, fmt.Sprintf(text+"\n", args...))
}

func (b *staged) log(text string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.happened = append(b.happened, fmt.Sprintf(text+"\n", args...))
}

func (w *stage) do(words []string) {
	command, name, args := words[0], words[1], words[2:]
	b := w.bindings[name]
	switch command {
	case "binding":
		w.bindings[name] = w.binding(name, args)
		w.order = append(w.order, w.bindings[name])
	case "join":
		for _, id := range args {
			b.subs[id] = &stream.Subscription{Consumer: b.monitor, Only: b.only, OnlyIn: b.onlyIn}
			b.monitor.expect(b.subs[id], source{})
		}
		for _, id := range args {
			w.feed(id).Join(b.subs[id])
		}
	case "leave":
		b.monitor.abandon(b.subs[args[0]])
		w.feed(args[0]).Leave(b.subs[args[0]])
	case "relist":
		w.feed(name).BeginList()
	case "list":
		id, v, _ := strings.Cut(name, "@")
		w.delivered(w.feed(id).DeliverList(w.contexts[id], w.list(v, args)))
	case "ask":
		n, at := w.feed(name).Ask()
		w.log("%s: a list for %d at version %d", name, n, at)
	case "late":
		id, v, _ := strings.Cut(name, "@")
		w.delivered(w.feed(id).DeliverLate(w.contexts[id], w.list(v, args)))
	case "set", "delete":
		w.delivered(w.feed(name).DeliverChange(w.contexts[name], w.text(args[0]).JSON, command == "delete"))
	case "stop":
		w.feed(name)
		w.stops[name]()
	case "snapshot":
		w.log("%s: %s", name, b.show(b.monitor.snapshot()))
	case "synchronize":
		w.log("%s: %s", name, b.show(b.monitor.synchronize()))
	case "state":
		s := b.monitor.state()
		w.log("%s: %d objects, total %+v, recent %+v, complete %t, unlocked %t, %d held", name, s.Objects.Len(), s.Total, s.Recent, s.Complete,
			s.Unlocked, s.Held)
	case "failures":
		s := b.monitor.state()
		w.log("%s: fails for %d of %d", name, s.FilterFails, s.Objects.Len())
		for line := range strings.Lines(b.logged.String()) {
			w.log("%s: %s", name, strings.TrimSpace(line))
		}
		b.logged.Reset()
	case "executed":
		b.monitor.executed = b.monitor.changes
	case "unlock":
		b.monitor.unlock()
	case "announce":
		b.monitor.announce()
	case "lead":
		b.monitor.rest(false)
	case "mute":
		b.monitor.mute()
	default:
		w.t.Fatalf("unknown command %q", command)
	}
	for _, f := range w.feeds {
		f.Wait()
	}
	for _, b := range w.order { // they run concurrently
		w.happened = append(w.happened, b.happened...)
		b.happened = nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.bindings)) {
		b := w.bindings[name]
		select {
		case <-b.monitor.filled:
			if !b.filled {
				b.filled = true
				w.log("%s has its first set", name)
			}
		default:
		}
	}
}

func (w *stage) feed(name string) *stream.Manual {
	if w.feeds[name] == nil {
		w.feeds[name] = stream.NewManual(true)
		w.contexts[name], w.stops[name] = context.WithCancel(w.t.Context())
	}
	return w.feeds[name]
}

// list returns a list of objects in the format of the API server.
func (w *stage) list(version string, args []string) io.Reader {
	items := make([]string, len(args))
	for i, arg := range args {
		items[i] = string(w.text(arg).JSON)
	}
	return strings.NewReader(fmt.Sprintf(`{"kind":"ThingList","metadata":{"resourceVersion":%q},"items":[%s]}`, version,
		strings.Join(items, ",")))
}

func (w *stage) delivered(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *stage) binding(name string, options []string) *staged {
	b := &staged{stage: w, name: name, subs: map[string]*stream.Subscription{}}
	h := &hook.Hook{Name: name, Kubernetes: make([]hook.Kubernetes, 1)}
	k := &h.Kubernetes[0]
	*k = hook.Kubernetes{Added: true, Modified: true, Deleted: true, KeepFullObjects: true}
	b.monitor = newMonitor(h, 0, b, b,
		slog.New(slog.NewTextHandler(&b.logged, &slog.HandlerOptions{ReplaceAttr: onlyFilterFields})))
	for _, option := range options {
		option, value, _ := strings.Cut(option, "=")
		switch option {
		case "jq":
			k.JQFilter = `if .text == "bad" then error("it is bad") else .text end`
		case "key":
			k.Lanes = hook.Lanes{Key: hook.Key(value), Concurrency: 1}
		case "names":
			b.only = set(strings.Split(value, ","))
		case "in":
			b.onlyIn = set(strings.Split(value, ","))
		case "events":
			k.Added, k.Modified, k.Deleted = strings.Contains(value, "Added"), strings.Contains(value, "Modified"),
				strings.Contains(value, "Deleted")
		case "conditions":
			k.Condition = "Ready"
		case "slim":
			k.KeepFullObjects = false
		case "standby":
		case "group":
			k.Group = "group"
		default:
			w.t.Fatalf("unknown option %q", option)
		}
	}
	b.monitor.arrange(false, slices.Contains(options, "standby"))
	b.monitor.rest(true)
	b.monitor.setResource(kube.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com"}})
	if err := b.monitor.compile(w.compiler); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// onlyFilterFields keeps the fields of a record that distinguish failures of filters.
func onlyFilterFields(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey || a.Key == "kind" {
		return slog.Attr{}
	}
	return a
}

// text reads NAMESPACE/NAME+FLAGS#UID@VERSION:TEXT, and returns an object with its JSON.
func (w *stage) text(arg string) *stream.Object {
	w.version++
	id, text, _ := strings.Cut(arg, ":")
	id, version, given := strings.Cut(id, "@")
	if !given {
		version = fmt.Sprint(w.version)
	}
	id, uid, _ := strings.Cut(id, "#")
	id, flags, _ := strings.Cut(id, "+")
	namespace, name, namespaced := strings.Cut(id, "/")
	if !namespaced {
		namespace, name = "", id
	}
	lifetime := ""
	if strings.Contains(flags, "d") {
		lifetime += `,"deletionTimestamp":"2026-01-02T03:04:05Z"`
	}
	if _, generation, has := strings.Cut(flags, "g"); has {
		lifetime += `,"generation":` + generation
	}
	return &stream.Object{Key: stream.KeyOf(namespace, name), Namespace: namespace, Name: name, UID: uid, JSON: fmt.Appendf(nil,
		`{"kind":"Thing","metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q%s},"text":%q}`,
		namespace, name, uid, version, lifetime, text)}
}

func (b *staged) show(s event.Snapshot) string {
	var texts []string
	s.Each(func(o event.Object) bool {
		texts = append(texts, b.describe(o))
		return true
	})
	if len(texts) != s.Len() {
		b.t.Errorf("a snapshot of %d objects has %d", s.Len(), len(texts))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

func (b *staged) describe(o event.Object) string {
	text := o.Name
	if o.Namespace != "" {
		text = o.Namespace + "/" + o.Name
	}
	if o.Full != nil {
		full, _ := o.Full.Bytes()
		var object struct {
			Metadata struct{ ResourceVersion string }
		}
		if err := json.Unmarshal(full, &object); err != nil {
			b.t.Errorf("the full object is %q: %v", full, err)
		}
		text += "@" + object.Metadata.ResourceVersion
	}
	if o.Filtered != nil {
		filtered, _ := o.Filtered.Bytes()
		text += " " + string(filtered)
	}
	return text
}

var _ Sink = (*staged)(nil)

func (b *staged) Event(ev event.Event) {
	if ev.Hook != b.monitor.hook || ev.Type != event.Change || ev.Object.Kind != "Thing" {
		b.t.Errorf("the event's address is wrong: %+v", ev)
	}
	text := b.describe(ev.Object)
	if ev.Key != "" {
		text += " key " + ev.Key
	}
	if ev.Initial {
		text += " (initial)"
	}
	b.log("%s: %s %s", b.name, ev.Watch, text)
}
func (b *staged) Objects(_ *hook.Hook, _ int, n int) {
	if n != b.monitor.items.Len() {
		b.t.Errorf("%d objects were reported, there are %d", n, b.monitor.items.Len())
	}
}
func (b *staged) FilterFailed(*hook.Hook, int, error) { b.log("%s: filter failed", b.name) }
func (b *staged) KeyFailed(*hook.Hook, int, error)    { b.log("%s: key failed", b.name) }
