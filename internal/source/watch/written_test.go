package watch

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// author is a hook that changes the objects that it watches, and what it remembers of that: all of it, and what streams deliver.
type author struct {
	s       *server
	w       *Watcher
	seen    *witness
	hook    *hook.Hook
	streams map[string]effect.Write
	// written are the last versions of objects, by name, deleted the versions at which those were gone, by uid.
	written map[string]int
	deleted map[string]int
	// own are the uids of objects that this version of the hook has written, by name.
	own map[string]string
}

// enter makes a version of the hook. The server does not read labels: what has left the selector is deleted there.
func (w *author) enter() {
	w.own = map[string]string{}
	w.hook = w.seen.enable(w.w, bindings("writer", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n"),
		Labels: "role=own"}))
}

// answer reports what the server has answered: the object of the last version.
func (w *author) answer(labels string) {
	v := len(w.s.history)
	text := strings.Replace(w.s.json(v), `"metadata":{`, `"metadata":{"labels":{`+labels+`},`, 1)
	w.report(effect.Answered{Resource: "configmaps", Kind: "ConfigMap", Text: []byte(text)})
}

func (w *author) report(a effect.Answered) {
	for _, one := range w.w.Delivers(w.hook, a) {
		if one.Version == 0 {
			w.streams[one.UID] = one
		} else if w.streams[one.Stream].Version < one.Version {
			w.streams[one.Stream] = one
		}
	}
}

func (w *author) uid(name string) string {
	v, ok := w.s.at(len(w.s.history))[name]
	if !ok {
		return ""
	}
	return w.s.history[v-1].uidText()
}

const isOwn = `"role":"own"`

// do makes one change.
func (w *author) do(kind, name string) {
	switch uid := w.uid(name); kind {
	case "write":
		w.s.write(name, false)
		w.written[name] = len(w.s.history)
		w.own[name] = w.uid(name)
		w.answer(isOwn)
	case "leave": // the label is removed: the watch reports a deletion, the answer is the object
		if has := w.w.Has(w.hook, 0, "n", name); uid != "" && (has || w.own[name] == uid) { // it is not known otherwise
			w.s.write(name, true)
			w.deleted[uid] = len(w.s.history)
			w.answer("")
		}
	case "recreate":
		w.do("delete", name)
		w.do("write", name)
	case "delete":
		if uid != "" {
			w.s.write(name, true)
			w.deleted[uid] = len(w.s.history)
			w.report(effect.Answered{Resource: "configmaps", Kind: "ConfigMap", Namespace: "n", Name: name,
				Text: fmt.Appendf(nil, `{"kind":"Status","details":{"uid":%q}}`, uid)})
		}
	case "other writes":
		w.s.write(name, false)
	case "other deletes":
		w.s.write(name, true)
	case "cut":
		w.s.cut()
	case "compact": // 410 follows
		w.s.compact()
	case "set back":
		w.s.setBack(len(w.s.history) - 3)
		time.Sleep(10 * time.Second) // until a list has the lower version, later ones are taken for seen
		undone := func(v int) bool { return v > len(w.s.history) }
		maps.DeleteFunc(w.written, func(_ string, v int) bool { return undone(v) })
		maps.DeleteFunc(w.deleted, func(_ string, v int) bool { return undone(v) })
	case "reload":
		old := w.hook
		w.enter()
		w.w.Disable(old, 0)
	case "resync":
		w.seen.enter(w.w, "other", 10*time.Millisecond)
	case "pause":
		time.Sleep(15 * time.Millisecond)
	}
}

// await waits for the snapshot to be complete, and returns what it lacks after 5 s.
func (w *author) await() (lacking effect.Write, ok bool) {
	late := time.After(5 * time.Second)
	for {
		lacking, shown := w.w.Processed(w.hook, 0, maps.Values(w.streams))
		if shown == nil {
			return lacking, true
		}
		select {
		case <-shown():
		case <-late:
			return lacking, false
		}
	}
}

// isShown reports whether all that is noted can be seen: nothing of it was lost by the server.
func (w *author) isShown() bool {
	for _, one := range w.streams {
		if one.Version > uint64(len(w.s.history)) || one.Version == 0 && w.deleted[one.UID] == 0 {
			return false
		}
	}
	return true
}

// check compares the snapshot with all that was ever written.
func (w *author) check() (problems []string) {
	snapshot := map[string]stream.Object{}
	m := w.w.monitor(w.hook, 0)
	m.mu.Lock()
	m.items.Scan(func(_ string, it item) bool {
		snapshot[it.object.Name] = *it.object
		return true
	})
	m.mu.Unlock()
	for name, v := range w.written {
		gone := slices.ContainsFunc(w.s.history[v:], func(r revision) bool { return r.name == name && r.deleted })
		if stream.ParseVersion(snapshot[name].ResourceVersion) < uint64(v) && !gone {
			problems = append(problems, fmt.Sprintf("%s is seen as of version %q, it was written as %d", name, snapshot[name].ResourceVersion, v))
		}
	}
	for _, o := range snapshot {
		if w.deleted[o.UID] > 0 {
			problems = append(problems, fmt.Sprintf("%s is seen with the uid %s, it was deleted", o.Name, o.UID))
		}
	}
	return problems
}

// TestWrittenAgainstHistory compares, after each wait, the snapshot of a hook with the history of all that it has written, while objects
// leave the selectors, are deleted and made again, watches end and expire, the API server is set back, hooks are reloaded and other clients
// write.
func TestWrittenAgainstHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]string {
			return [2]string{
				rapid.SampledFrom([]string{"write", "write", "write", "leave", "delete", "recreate", "other writes", "other deletes", "cut",
					"compact", "set back", "reload", "resync", "pause", "await", "await", "await"}).Draw(t, "kind"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
			}
		}), 1, 30).Draw(rt, "steps")
		s := newServer(rapid.Uint64().Draw(rt, "seed"))
		problem := ""
		follow(t, s, func(watcher *Watcher, seen *witness) {
			w := &author{s: s, w: watcher, seen: seen, streams: map[string]effect.Write{}, written: map[string]int{}, deleted: map[string]int{}}
			w.enter()
			for i, step := range append(steps, [2]string{"await", ""}) {
				if step[0] != "await" {
					w.do(step[0], step[1])
					continue
				}
				lacking, ok := w.await()
				if problems := w.check(); !ok && w.isShown() || len(problems) > 0 {
					problem = fmt.Sprintf("step %d: lacks %v: %q", i, lacking, problems)
					return
				}
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// waitStage is a binding with a stream that has come up to version 10.
type waitStage struct {
	*monitor
	sub *stream.Subscription
	set *bindingSet
}

func newWaitStage() *waitStage {
	m := newMonitor(bindings("h", hook.Kubernetes{Kind: "ConfigMap"}), 0, silence{}, NoMeter{}, slog.New(slog.DiscardHandler))
	sub := &stream.Subscription{Consumer: m}
	m.expect(sub, source{})
	m.subs[sub].selection = "all"
	m.Reached(sub, 10, true)
	return &waitStage{m, sub, &bindingSet{monitors: map[address]*monitor{m.address: m}}}
}

// wait returns a wait for a version; nil if it is there.
func (s *waitStage) wait(version uint64) <-chan struct{} {
	_, shown := s.set.Processed(s.hook, 0, slices.Values([]effect.Write{{Stream: "all", Version: version}}))
	if shown == nil {
		return nil
	}
	return shown()
}

func isOver(wait <-chan struct{}) bool {
	select {
	case <-wait:
		return true
	default:
		return false
	}
}

// A wait is over when the watch has come so far, or when it cannot be expected to: the watch fails, or the binding ends.
func TestEndsOfAWait(t *testing.T) {
	for name, end := range map[string]func(*waitStage){
		"a bookmark":             func(s *waitStage) { s.Reached(s.sub, 12, false) },
		"a newer list":           func(s *waitStage) { s.Reached(s.sub, 15, true) },
		"a failing watch":        func(s *waitStage) { s.Answered(s.sub, "watch", errUnreachable) },
		"the end of the binding": func(s *waitStage) { s.end() },
	} {
		s := newWaitStage()
		wait := s.wait(12)
		if s.Reached(s.sub, 3, true); wait == nil || isOver(wait) {
			t.Errorf("%s: nothing is waited for", name)
			continue
		}
		if end(s); !isOver(wait) {
			t.Errorf("%s: the wait is not over", name)
		}
	}
}

// What the hook has changed before the API server was set back decides nothing afterwards.
func TestDeliversAfterSetBack(t *testing.T) {
	s := newWaitStage()
	for _, v := range []uint64{12, 11} { // the label is removed, the object is back with it, the label is removed again
		if !s.subs[s.sub].delivers("key", true, lastWrite{version: v}) {
			t.Errorf("version %d is not delivered", v)
		}
		s.Reached(s.sub, 10, true)
		s.Reached(s.sub, 9, true)
	}
}

// Delivers knows what each binding selects, by the answer and by the objects that the binding has.
func TestDelivers(t *testing.T) {
	at := shard.Shard{Index: 0, Count: 2}
	own := stream.Part{Part: at.Part(shard.ByObject)}
	var uid [2]string // of each shard
	for i := 0; uid[0] == "" || uid[1] == ""; i++ {
		text := fmt.Sprint("uid-", i)
		if own.Has(&stream.Object{UID: text}) {
			uid[0] = text
		} else {
			uid[1] = text
		}
	}
	for _, row := range []struct {
		name   string
		scope  stream.Scope
		only   string
		answer string
		want   bool
	}{
		{"all", stream.Scope{}, "", `"namespace":"n","name":"a"`, true},
		{"another namespace", stream.Scope{Namespace: "m"}, "", `"namespace":"n","name":"a"`, false},
		{"a name among others", stream.Scope{}, "a", `"namespace":"n","name":"a"`, true},
		{"another name", stream.Scope{}, "b", `"namespace":"n","name":"a"`, false},
		{"a label", stream.Scope{Labels: "role=own"}, "", `"namespace":"n","name":"a","labels":{"role":"own"}`, true},
		{"another label", stream.Scope{Labels: "role=own"}, "", `"namespace":"n","name":"a","labels":{"role":"x"}`, false},
		{"a field of the answer", stream.Scope{Fields: "metadata.name=a"}, "", `"namespace":"n","name":"a"`, true},
		{"another field", stream.Scope{Fields: "data.x=1"}, "", `"namespace":"n","name":"a"`, false},
		{"of the shard", stream.Scope{Part: own}, "", `"namespace":"n","name":"a","uid":"` + uid[0] + `"`, true},
		{"of another shard", stream.Scope{Part: own}, "", `"namespace":"n","name":"a","uid":"` + uid[1] + `"`, false},
		{"an object that the binding has", stream.Scope{Labels: "role=own"}, "", `"namespace":"n","name":"had"`, true},
	} {
		m := newMonitor(bindings("h", hook.Kubernetes{Kind: "ConfigMap"}), 0, silence{}, NoMeter{}, slog.New(slog.DiscardHandler))
		m.resource.Resource = "configmaps"
		sub := &stream.Subscription{Consumer: m, Scope: row.scope}
		if row.only != "" {
			sub.Only = map[string]bool{row.only: true}
		}
		m.expect(sub, source{})
		m.Replace(sub, []stream.Digested{{Object: &stream.Object{Key: stream.KeyOf("n", "had"), Namespace: "n", Name: "had", UID: "7"}}})
		set := &bindingSet{monitors: map[address]*monitor{m.address: m}}
		got := set.Delivers(m.hook, effect.Answered{Resource: "configmaps", Kind: "ConfigMap",
			Text: fmt.Appendf(nil, `{"kind":"ConfigMap","metadata":{%s,"resourceVersion":"5"}}`, row.answer)})
		if (len(got) == 1) != row.want || len(got) > 0 && (got[0].Version != 5 || got[0].Stream != row.scope.Selection()) {
			t.Errorf("%s: %+v", row.name, got)
		}
		for _, other := range []effect.Answered{
			{Resource: "secrets", Kind: "Secret", Text: []byte(`{"kind":"Secret","metadata":{"resourceVersion":"5"}}`)},
			{Resource: "configmaps", Kind: "ConfigMap", Text: []byte(`{"kind":"Scale","metadata":{"name":"had","resourceVersion":"5"}}`)},
			{Resource: "configmaps", Kind: "ConfigMap", Text: []byte(`{"kind":"ConfigMap","metadata":{"name":"had","resourceVersion":"v5"}}`)},
			{Resource: "configmaps", Kind: "ConfigMap", Text: []byte(`{"kind":"Status","status":"Success"}`)},
		} {
			if got := set.Delivers(m.hook, other); got != nil {
				t.Errorf("%s: %s is delivered: %+v", row.name, other.Text, got)
			}
		}
	}
}
