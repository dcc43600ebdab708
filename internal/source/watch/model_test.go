package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstModel compares events and snapshots of bindings with plain maps, after each of many random commands of
// TestScripts. The bindings begin locked, with an initial list.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newStage(t)
		m := &model{server: map[string]modelObject{}, bindings: []*modelBinding{
			{name: "full", seen: map[string]modelObject{}},
			{name: "filtered", jq: true, resting: true, seen: map[string]modelObject{}},
		}}
		var script []string
		do := func(command string) {
			script = append(script, command)
			w.do(strings.Fields(command))
		}
		for _, command := range []string{"binding full", "binding filtered jq slim standby", "join full s", "join filtered s", "list s"} {
			do(command)
		}
		w.happened = nil
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			command, want := m.step(rt)
			if command == "" {
				continue // a change that no consumer receives
			}
			do(command)
			if got := strings.Join(w.happened, ""); got != strings.Join(want, "") {
				rt.Fatalf("%s\n----\n%swant\n%s", strings.Join(script, "\n"), got, strings.Join(want, ""))
			}
			w.happened = nil
		}
	})
}

// model is the API server and what bindings see of it.
type model struct {
	version int
	server  map[string]modelObject
	// bindings are in the order in which they joined.
	bindings []*modelBinding
	// blind is the number of changes that no stream received; only a list recovers them.
	blind int
}

type modelObject struct {
	key     string
	version int
	uid     int
	text    string
}

func (o modelObject) String() string {
	return fmt.Sprintf("%s#%d@%d:%s", o.key, o.uid, o.version, o.text)
}

type modelBinding struct {
	name     string
	jq       bool
	seen     map[string]modelObject
	unlocked bool
	resting  bool
	held     []string
}

// step does one thing, and returns the command for it and what has to come of it.
func (m *model) step(t *rapid.T) (command string, want []string) {
	m.version++
	kind := rapid.SampledFrom([]string{"set", "set", "set", "delete", "blind", "again", "list", "snapshot", "synchronize", "unlock",
		"announce", "lead", "lead"}).Draw(t, "command")
	key := rapid.SampledFrom([]string{"x/a", "x/b", "y/a", "c"}).Draw(t, "key")
	text := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "text")
	b := rapid.SampledFrom(m.bindings).Draw(t, "binding")
	old, exists := m.server[key]
	changed := modelObject{key, m.version, old.uid, text}
	if !exists {
		changed.uid = m.version
	}
	switch kind {
	case "blind": // a change while the watch is broken
		m.blind++
		if m.server[key] = changed; exists && text == "two" {
			delete(m.server, key)
		}
		return "", nil
	case "again": // deleted and created again while the watch is broken
		m.blind++
		changed.uid = m.version
		m.server[key] = changed
		return "", nil
	}
	if m.blind > 0 && (kind == "set" || kind == "delete") {
		kind = "list"
	}
	switch kind {
	case "set":
		m.server[key] = changed
		for _, b := range m.bindings {
			want = append(want, b.change(changed)...)
		}
		return "set s " + changed.String(), want
	case "delete":
		if !exists {
			return "", nil
		}
		delete(m.server, key)
		for _, b := range m.bindings {
			last := changed
			delete(b.seen, key)
			want = append(want, b.fire("Deleted", last, old.text)...)
		}
		return "delete s " + changed.String(), want
	case "list":
		m.blind = 0
		command = "list s"
		for _, o := range m.server {
			command += " " + o.String()
		}
		for _, b := range m.bindings {
			for _, key := range order(b.seen) {
				if _, ok := m.server[key]; !ok {
					gone := b.seen[key]
					delete(b.seen, key)
					want = append(want, b.fire("Deleted", gone, gone.text)...)
				}
			}
			for _, key := range order(m.server) {
				want = append(want, b.change(m.server[key])...)
			}
		}
		return command, want
	case "unlock":
		want, b.held, b.unlocked = b.held, nil, true
	case "lead":
		b.resting = false
	case "announce":
		b.held, b.unlocked = nil, true
		for _, key := range order(b.seen) {
			for _, line := range b.fire("Added", b.seen[key], b.seen[key].text) {
				want = append(want, strings.Replace(line, "\n", " (initial)\n", 1))
			}
		}
	case "synchronize":
		b.held = nil
		fallthrough
	case "snapshot":
		var texts []string
		for _, key := range order(b.seen) {
			texts = append(texts, b.describe(b.seen[key], b.seen[key].text))
		}
		want = []string{fmt.Sprintf("%s: [%s]\n", b.name, strings.Join(texts, ", "))}
	}
	return kind + " " + b.name, want
}

// order sorts by namespace and name.
func order(objects map[string]modelObject) []string {
	return slices.SortedFunc(maps.Keys(objects), func(a, b string) int {
		split := func(key string) []string {
			if namespace, name, ok := strings.Cut(key, "/"); ok {
				return []string{namespace, name}
			}
			return []string{"", key}
		}
		return slices.Compare(split(a), split(b))
	})
}

func (b *modelBinding) change(o modelObject) []string {
	old, had := b.seen[o.key]
	b.seen[o.key] = o
	switch {
	case !had:
		return b.fire("Added", o, o.text)
	case old.uid != o.uid:
		return append(b.fire("Deleted", old, old.text), b.fire("Added", o, o.text)...)
	case b.jq && old.text == o.text, !b.jq && old.version == o.version:
		return nil
	}
	return b.fire("Modified", o, o.text)
}

func (b *modelBinding) fire(watch string, o modelObject, filtered string) []string {
	line := fmt.Sprintf("%s: %s %s\n", b.name, watch, b.describe(o, filtered))
	if b.resting {
		return nil
	}
	if !b.unlocked {
		b.held = append(b.held, line)
		return nil
	}
	return []string{line}
}

func (b *modelBinding) describe(o modelObject, filtered string) string {
	if b.jq {
		return fmt.Sprintf("%s %q", o.key, filtered)
	}
	return fmt.Sprintf("%s@%d", o.key, o.version)
}
