package hookset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// sound describes a set: its hooks, and the broken ones with their problems.
func sound(set *Set) string {
	var text []string
	for _, h := range set.Hooks {
		text = append(text, h.Name)
	}
	for _, b := range set.Broken {
		text = append(text, "!"+b.Name+": "+b.Problem())
	}
	return strings.Join(text, "\n")
}

// A broken hook is left out, a changed one stays as it was, and what it prints is not in its problem.
func TestBrokenHooksAreLeftOut(t *testing.T) {
	l := newLibrary(t, 0)
	l.opts.SkipBroken = true
	var rejected []string
	l.opts.Rejected = func(names []string) { rejected = append(rejected, names...) }
	l.write("a", "{configVersion: v1, onStartup: 1}")
	l.write("b", "{configVersion: v1, onStartup: \"secret\"}")
	first := l.load()
	if got, want := sound(first), "a\n!b: the configuration is not valid: onStartup must be of type integer: …"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(sound(first), "secret") || !slices.Equal(rejected, []string{"b"}) {
		t.Errorf("%s, rejected %q", sound(first), rejected)
	}
	l.store.Use(first, first.Hooks)
	a := first.Hooks[0]
	l.write("a", "{configVersion: v1, kubernetes: 7}")
	l.write("c", "{configVersion: v1, onStartup: 1}")
	l.opts.Active = first.Hooks
	second := l.load()
	change := second.ChangeFrom(first.Hooks)
	if c := second.Hooks[0]; !slices.Equal(change.Hooks, []*hook.Hook{a, c}) || !slices.Equal(change.Loaded, []*hook.Hook{c}) ||
		!slices.Equal(change.Added, []string{"c"}) || len(change.Old)+len(change.Changed)+len(change.Removed) > 0 {
		t.Errorf("change %+v of\n%s", change, sound(second))
	}
	l.store.Use(second, change.Loaded)
	path, _, release := l.store.Take(a)
	if text, err := os.ReadFile(path + ".conf"); err != nil || !strings.Contains(string(text), "onStartup: 1") {
		t.Errorf("the previous version runs from %s with %q, %v", path, text, err)
	}
	release()
	if err := os.Remove(filepath.Join(l.opts.Dir, "a")); err != nil {
		t.Fatal(err)
	}
	l.opts.Active = change.Hooks
	third := l.load()
	if removed := third.ChangeFrom(change.Hooks).Removed; !slices.Equal(removed, []string{"a"}) {
		t.Errorf("removed %q", removed)
	}
	l.store.Drop(third)
}

// A broken hook that works later joins the others, from the copy of the last set. Its copies end with their last use.
func TestRetryOfBrokenHooks(t *testing.T) {
	l := newLibrary(t, 0)
	l.opts.SkipBroken = true
	works := filepath.Join(t.TempDir(), "works")
	l.write("a", "{configVersion: v1, onStartup: 1}")
	l.write("b", "{configVersion: v1, onStartup: 1}")
	if err := os.WriteFile(filepath.Join(l.opts.Dir, "b"), []byte("#!/bin/sh\ntest -e "+works+" && cat \"$0.conf\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := l.load()
	l.store.Use(first, first.Hooks)
	active := first.Hooks
	retry := func() *Set {
		t.Helper()
		l.opts.Active = active
		set, err := l.store.Retry(t.Context(), l.opts, []string{"b"})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := retry()
	if got := sound(set); got != "!b: the call with --config failed: exit status 1" {
		t.Errorf("got %s", got)
	}
	if change := set.ChangeFrom(active); !slices.Equal(change.Hooks, active) || len(change.Loaded) > 0 {
		t.Errorf("change %+v", change)
	}
	l.store.Use(set, nil)
	l.store.Drop(retry())
	if n := l.copies(); n != 1 {
		t.Errorf("%d copies", n)
	}
	if err := os.WriteFile(works, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.write("a", "{configVersion: v1, onStartup: 2}") // a reload will read it
	set = retry()
	change := set.ChangeFrom(active)
	if sound(set) != "b" || len(change.Hooks) != 2 || change.Hooks[0] != active[0] || !slices.Equal(change.Added, []string{"b"}) {
		t.Errorf("%s: change %+v", sound(set), change)
	}
	l.store.Use(set, change.Loaded)
	a, _, releaseA := l.store.Take(change.Hooks[0])
	b, _, releaseB := l.store.Take(change.Hooks[1])
	if filepath.Dir(a) != filepath.Dir(b) {
		t.Errorf("they run from %s and %s", a, b)
	}
	releaseA()
	releaseB()
	l.opts.Active = change.Hooks
	last := l.load()
	l.store.Use(last, last.Hooks)
	for _, h := range change.Hooks {
		l.store.Forget(h)
	}
	if n := l.copies(); n != 1 {
		t.Errorf("%d copies after a reload", n)
	}
}

// Of hooks that contradict each other, the one that is active and has not changed stays; the others have to agree with it.
func TestBrokenHooksThatContradict(t *testing.T) {
	finalizing := func(name, finalizer string) *hook.Hook {
		return &hook.Hook{Name: name, Kubernetes: []hook.Kubernetes{{Binding: hook.Binding{Name: "b"}, Finalizer: finalizer}}}
	}
	x := "example.com/x"
	broken := map[string]error{"b": &wire.ConfigError{Hook: "b", Violations: []wire.Violation{{Problem: "broken"}}}}
	for name, test := range map[string]struct {
		active, loaded []*hook.Hook
		problems       map[string]error
		want           string
	}{
		"at the start":       {nil, []*hook.Hook{finalizing("a", x), finalizing("b", x)}, nil, "a !b"},
		"unchanged":          {[]*hook.Hook{finalizing("b", x)}, []*hook.Hook{finalizing("a", x), finalizing("b", x)}, nil, "b !a"},
		"a previous version": {[]*hook.Hook{finalizing("b", x)}, []*hook.Hook{finalizing("a", x)}, broken, "!a !b"},
		"none":               {nil, []*hook.Hook{finalizing("a", x)}, broken, "a !b"},
		"a chain": { // b takes the finalizer of c, which is broken, and so keeps its own, which a takes
			[]*hook.Hook{finalizing("b", "example.com/y"), finalizing("c", x)},
			[]*hook.Hook{finalizing("a", "example.com/y"), finalizing("b", x)},
			map[string]error{"c": errors.New("broken")}, "!a !b !c"},
	} {
		o := Options{Active: test.active}
		problems := map[string]error{}
		for name, err := range test.problems {
			problems[name] = err
		}
		var got []string
		for _, h := range o.agreeing(test.loaded, problems, false) {
			got = append(got, h.Name)
		}
		for name := range problems {
			got = append(got, "!"+name)
		}
		slices.SortFunc(got, func(a, b string) int {
			if (a[0] == '!') != (b[0] == '!') {
				return strings.Compare(b, a)
			}
			return strings.Compare(a, b)
		})
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, " "), test.want)
		}
	}
	// What the operator finds, too.
	o := Options{Agree: func(hooks []*hook.Hook) error {
		if len(hooks) > 1 {
			return errors.New(`hooks "a" and "b" have one path`)
		}
		return nil
	}}
	problems := map[string]error{}
	o.agreeing([]*hook.Hook{{Name: "a"}, {Name: "b"}}, problems, false)
	b := Broken{"b", problems["b"]}
	if want := "it contradicts another hook: hooks … and … have one path"; len(problems) != 1 || b.Problem() != want {
		t.Errorf("problems %v: %s", problems, b.Problem())
	}
}
