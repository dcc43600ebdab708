// Package reload changes the files of hooks while an operator runs with --watch-hooks.
package reload

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook prints its contexts in one line, after what it is.
const self = `#!/bin/sh
if [ "$1" = --config ]; then exec cat <<'END'
%s
END
fi
printf 'run %s '; cat "$BINDING_CONTEXT_PATH"
`

type dir struct {
	t    *testing.T
	path string
	ns   string
}

// hook writes a hook, or a new version of it. $NS stands for the namespace.
func (d dir) hook(name, version, config string) {
	d.t.Helper()
	d.put(name, fmt.Sprintf(self, strings.ReplaceAll(config, "$NS", d.ns), version), 0o755)
}

// put replaces a file as programs do that never leave half of one.
func (d dir) put(name, text string, mode os.FileMode) {
	d.t.Helper()
	path := filepath.Join(d.path, name)
	if err := errors.Join(os.WriteFile(filepath.Join(d.path, ".new"), []byte(text), mode), os.Chmod(filepath.Join(d.path, ".new"), mode),
		os.Rename(filepath.Join(d.path, ".new"), path)); err != nil {
		d.t.Fatal(err)
	}
}

func (d dir) remove(name string) {
	d.t.Helper()
	if err := errors.Join(os.Remove(filepath.Join(d.path, name)), os.RemoveAll(filepath.Join(d.path, name+".yaml"))); err != nil {
		d.t.Fatal(err)
	}
}

type object struct{ Metadata struct{ Name string } }

// received formats each context that the hooks received: "hook version: binding what".
func received(records []testenv.Record) (all []string) {
	for _, r := range records {
		text, ok := strings.CutPrefix(r.Fields["msg"], "run ")
		if !ok {
			continue
		}
		version, text, _ := strings.Cut(text, " ")
		var contexts []struct {
			Binding, Type, WatchEvent string
			Object                    object
			Objects                   []struct{ Object object }
		}
		if json.Unmarshal([]byte(text), &contexts) != nil {
			continue
		}
		for _, c := range contexts {
			what := c.Binding + " " + c.Type
			switch c.Type {
			case "Event":
				what = c.Binding + " " + c.WatchEvent + " " + c.Object.Metadata.Name
			case "Synchronization":
				for _, o := range c.Objects {
					what += " " + o.Object.Metadata.Name
				}
			case "":
				what = c.Binding
			}
			all = append(all, r.Fields["hook"]+" "+version+": "+what)
		}
	}
	return all
}

// start starts an operator that follows its hooks.
func start(t *testing.T, cluster *testenv.Cluster, d dir, args ...string) *testenv.Operator {
	t.Helper()
	return testenv.Start(t, testenv.OperatorOptions{
		HooksDir: d.path, Kubeconfig: cluster.Kubeconfig, Args: append([]string{"--watch-hooks"}, args...),
	})
}

// until waits until hooks have received exactly this, in this order for each hook.
func until(op *testenv.Operator, t *testing.T, want ...string) {
	t.Helper()
	var got []string
	err := op.TryUntil(test.Patience, func(records []testenv.Record) bool {
		got = received(records)
		return len(got) >= len(want)
	})
	if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Fatalf("%v: hooks received\n%s\nwant\n%s\nlog\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"), op.Log())
	}
}

// reloaded waits for the nth reload.
func reloaded(op *testenv.Operator, n int) { op.UntilCount(n, "Hooks are reloaded") }

func bindings(all ...string) string {
	return "{configVersion: v1, kubernetes: [" + strings.Join(all, ", ") + "]}"
}

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }

// A hook that does not change receives every object once, as Added and as Deleted, while a client creates and deletes as fast
// as it can and other hooks with the same list and watch change 50 times. Queues, goroutines and series of metrics of what is
// gone are gone, too.
func TestUnchangedHook(t *testing.T) {
	cluster := testenv.Either(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	const versions = 50
	maps := `{name: %s, queue: %s, kind: ConfigMap, labelSelector: {matchLabels: {%s: "yes"}}, jqFilter: .metadata.name, ` +
		`namespace: {nameSelector: {matchNames: [$NS]}}}`
	d.hook("same", "v", bindings(fmt.Sprintf(maps, "maps", "same", "stream")))
	d.hook("other", "v0", bindings(fmt.Sprintf(maps, "b0", "q0", "stream")))
	op := start(t, cluster, d)
	op.UntilLog("Unlock kubernetes.Event tasks", "hook", "same")

	stream := newStream(t, cluster, d.ns, true)
	for n := 1; n <= versions; n++ {
		d.hook("other", fmt.Sprintf("v%d", n), bindings(fmt.Sprintf(maps, fmt.Sprintf("b%d", n), fmt.Sprintf("q%d", n), "stream")))
		reloaded(op, n)
	}
	stream.end()
	stream.create()
	last, seen := fmt.Sprintf("Deleted o-%d", stream.objects-1), map[string]int{}
	op.Until("the last object", func(records []testenv.Record) bool {
		clear(seen)
		for _, line := range received(records) {
			if what, ok := strings.CutPrefix(line, "same v: maps "); ok {
				seen[what]++
			}
		}
		return seen[last] > 0
	})
	t.Logf("%d objects while other hooks changed %d times", stream.objects, versions)
	for i := range stream.objects {
		for _, what := range []string{"Added", "Deleted"} {
			if n := seen[fmt.Sprintf("%s o-%d", what, i)]; n != 1 {
				t.Errorf("%s of object %d was delivered %d times", what, i, n)
			}
		}
	}
	metrics := op.Page("/metrics")
	for _, gone := range []string{`"b7"`, `"q7"`} {
		for line := range strings.Lines(metrics) {
			if strings.Contains(line, gone) {
				t.Errorf("a series of %s is left: %s", gone, line)
			}
		}
	}
}
