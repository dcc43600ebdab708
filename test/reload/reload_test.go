// Package reload changes the files of hooks while an operator runs with --watch-hooks.
package reload

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook takes its configuration from the file beside it, and prints its contexts in one line, after what it is. self has it in itself,
// so that both change at once.
const script = `#!/bin/sh
if [ "$1" = --config ]; then exec cat "$0.yaml"; fi
printf 'run %s '; cat "$BINDING_CONTEXT_PATH"
`

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

func (d dir) config(name, config string) {
	d.t.Helper()
	d.put(name+".yaml", strings.ReplaceAll(config, "$NS", d.ns), 0o644)
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

func configMap(t *testing.T, c *testenv.Cluster, ns, name string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "create", "configmap", name)
}

// reloaded waits for the nth reload.
func reloaded(op *testenv.Operator, n int) testenv.Record {
	var found testenv.Record
	op.Until(fmt.Sprintf("reload %d", n), func(records []testenv.Record) bool {
		seen := 0
		for _, r := range records {
			if r.Has("Hooks are reloaded") {
				if seen++; seen == n {
					found = r
					return true
				}
			}
		}
		return false
	})
	return found
}

const watching = `{name: %s, kind: %s, nameSelector: {matchNames: [%s]}, namespace: {nameSelector: {matchNames: [$NS]}}}`

func bindings(all ...string) string {
	return "{configVersion: v1, kubernetes: [" + strings.Join(all, ", ") + "]}"
}

// A changed hook is removed and added. A mistake changes nothing.
func TestReload(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	maps := fmt.Sprintf(watching, "maps", "ConfigMap", "a, b, c, d")
	secrets := fmt.Sprintf(watching, "secrets", "Secret", "s")
	configMap(t, cluster, d.ns, "a")
	cluster.Kubectl(t, "-n", d.ns, "create", "secret", "generic", "s")
	d.hook("one", "v1", bindings(maps))
	op := start(t, cluster, d)
	want := []string{"one v1: maps Synchronization a"}
	until(op, t, want...)

	// Another binding comes before the one that is there.
	d.hook("one", "v2", bindings(secrets, maps))
	if r := reloaded(op, 1); r.Fields["changed"] != "one" || r.Fields["added"] != "" || r.Fields["removed"] != "" {
		t.Errorf("record %s", r.Text)
	}
	want = append(want, "one v2: secrets Synchronization s", "one v2: maps Synchronization a")
	until(op, t, want...)
	configMap(t, cluster, d.ns, "b")
	want = append(want, "one v2: maps Added b")
	until(op, t, want...)

	// A hook that comes later runs at its start, too.
	d.hook("two", "v1", "{configVersion: v1, onStartup: 1, kubernetes: ["+maps+"]}")
	reloaded(op, 2)
	want = append(want, "two v1: onStartup", "two v1: maps Synchronization a b")
	until(op, t, want...)

	// A mistake in one of them: nothing changes, and everybody can see why.
	d.hook("two", "v1", "{configVersion: v1, kubernetes: [{kinds: Pod, password: hunter2}]}")
	op.UntilLog("Reload rejected, the previous hooks stay active")
	status, ready := testenv.Get(t, op.Address()+"/readyz")
	if status != http.StatusOK || !strings.Contains(ready,
		`hook "two": the last reload was rejected, the previous hooks stay active: the configuration is not valid: `) {
		t.Errorf("%d: %s", status, ready)
	}
	if counted := op.Page("/metrics"); !strings.Contains(counted, `shell_operator_hooks_reloads_total{result="error"} 1`) {
		t.Errorf("the metrics do not count it: %s", counted)
	}
	// Pages have no password, so they show nothing that a hook has printed.
	home := op.Page("/")
	if !strings.Contains(home, "the last reload was rejected") {
		t.Errorf("the page: %s", home)
	}
	for _, page := range []string{ready, home} {
		if strings.Contains(page, "hunter2") {
			t.Errorf("a page shows what a hook has printed: %s", page)
		}
	}
	why, err := exec.Command(testenv.Binary(t), "why", "one", "--debug-unix-socket", op.Socket).Output()
	if err != nil || !strings.HasPrefix(string(why), "one: ready\n") ||
		!strings.Contains(string(why), "the last reload was rejected: shell-operator status shows the cause") ||
		strings.Contains(string(why), "hunter2") {
		t.Errorf("why says, %v:\n%s", err, why)
	}
	configMap(t, cluster, d.ns, "c")
	want = append(want, "one v2: maps Added c", "two v1: maps Added c")
	until(op, t, want...)

	// The hook goes.
	d.remove("two")
	if r := reloaded(op, 3); r.Fields["removed"] != "two" {
		t.Errorf("record %s", r.Text)
	}
	configMap(t, cluster, d.ns, "d")
	want = append(want, "one v2: maps Added d")
	until(op, t, want...)
}

// A hook that does not change receives every object once, as Added and as Deleted, while a client creates and deletes as fast
// as it can and other hooks with the same list and watch change 50 times. Queues, goroutines and series of metrics of what is
// gone are gone, too.
func TestUnchangedHook(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	const versions = 50
	maps := `{name: %s, queue: %s, kind: ConfigMap, labelSelector: {matchLabels: {%s: "yes"}}, jqFilter: .metadata.name, ` +
		`namespace: {nameSelector: {matchNames: [$NS]}}}`
	d.hook("same", "v", bindings(fmt.Sprintf(maps, "maps", "same", "stream")))
	d.hook("other", "v0", bindings(fmt.Sprintf(maps, "b0", "q0", "stream")))
	op := start(t, cluster, d)
	op.UntilLog("Unlock kubernetes.Event tasks", "hook", "same")

	client, err := kubernetes.NewForConfig(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	over, objects := make(chan struct{}), 0
	write := func(name string) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"stream": "yes"}}}
		if _, err := client.CoreV1().ConfigMaps(d.ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if err := client.CoreV1().ConfigMaps(d.ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	writing.Go(func() {
		for ; ; objects++ {
			select {
			case <-over:
				return
			default:
				write(fmt.Sprintf("o-%d", objects))
			}
		}
	})
	for n := 1; n <= versions; n++ {
		d.hook("other", fmt.Sprintf("v%d", n), bindings(fmt.Sprintf(maps, fmt.Sprintf("b%d", n), fmt.Sprintf("q%d", n), "stream")))
		reloaded(op, n)
	}
	close(over)
	writing.Wait()
	write("last")
	seen := map[string]int{}
	op.Until("the last object", func(records []testenv.Record) bool {
		clear(seen)
		for _, line := range received(records) {
			if what, ok := strings.CutPrefix(line, "same v: maps "); ok {
				seen[what]++
			}
		}
		return seen["Deleted last"] > 0
	})
	t.Logf("%d objects while other hooks changed %d times", objects, versions)
	for i := range objects {
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

// A run that hangs holds up the next version of its own hook and nothing else. Pages name it.
func TestHungRun(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	end := filepath.Join(t.TempDir(), "end")
	if err := syscall.Mkfifo(end, 0o600); err != nil {
		t.Fatal(err)
	}
	seconds := "{configVersion: v1, schedule: [{name: %s, queue: %s, crontab: '* * * * * *'}]}"
	d.config("hang", fmt.Sprintf(seconds, "first", "slow"))
	d.put("hang", "#!/bin/sh\nif [ \"$1\" = --config ]; then exec cat \"$0.yaml\"; fi\necho hangs; read x <"+end+"; exit 1\n", 0o755)
	d.hook("changes", "v1", fmt.Sprintf(seconds, "a", "main"))
	d.hook("same", "v1", fmt.Sprintf(seconds, "a", "main"))
	op := start(t, cluster, d)
	op.UntilLog("hangs")
	d.hook("hang", "v2", fmt.Sprintf(seconds, "second", "slow"))
	d.hook("changes", "v2", fmt.Sprintf(seconds, "b", "main"))
	reloaded(op, 1)
	seen := func(n int, lines ...string) {
		t.Helper()
		op.Until(strings.Join(lines, ", "), func(records []testenv.Record) bool {
			count := map[string]int{}
			for _, line := range received(records) {
				count[line]++
			}
			return !slices.ContainsFunc(lines, func(line string) bool { return count[line] < n })
		})
	}
	seen(2, "changes v2: b Schedule")
	before := 0
	for _, line := range received(op.Records()) {
		if line == "same v1: a Schedule" {
			before++
		}
	}
	seen(before+2, "same v1: a Schedule")
	why, err := exec.Command(testenv.Binary(t), "why", "hang", "--debug-unix-socket", op.Socket).CombinedOutput()
	if err != nil || !strings.Contains(string(why), "a run of its previous version, which began at ") {
		t.Errorf("why says, %v:\n%s", err, why)
	}
	if ready := op.Page("/readyz"); !strings.Contains(ready, `hook "hang" waits: a run of its previous version, which began at `) {
		t.Errorf("/readyz says %s", ready)
	}
	// A later reload supersedes the version that waits.
	d.hook("hang", "v3", fmt.Sprintf(seconds, "third", "slow"))
	op.Until("the reload of version 3", func(records []testenv.Record) bool {
		n := 0
		for _, r := range records { // two hooks changed at first, together or one by one
			if r.Has("Hooks are reloaded") && strings.Contains(r.Fields["changed"], "hang") {
				n++
			}
		}
		return n == 2
	})
	if err := os.WriteFile(end, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	op.UntilLog("Hook failed; it is not retried because it was changed, removed or paused", "hook", "hang")
	seen(1, "hang v3: third Schedule")
	for _, line := range received(op.Records()) {
		if strings.HasPrefix(line, "hang v2") {
			t.Errorf("a version that was superseded ran: %s", line)
		}
	}
}

// At the start the kubernetes bindings of all hooks wait for all onStartup runs, also for one that a reload has fixed.
func TestStartupIsFixed(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	end := filepath.Join(t.TempDir(), "end")
	if err := syscall.Mkfifo(end, 0o600); err != nil {
		t.Fatal(err)
	}
	startup := "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, onStartup: %d}'; exit; fi\n%s\n"
	d.put("prepares", fmt.Sprintf(startup, 1, "exit 1"), 0o755)
	d.hook("other", "v1", bindings(fmt.Sprintf(watching, "all", "ConfigMap", "x")))
	op := start(t, cluster, d)
	op.UntilLog("Hook failed. Will retry after delay.", "hook", "prepares")
	d.put("prepares", fmt.Sprintf(startup, 2, "echo waits; read x <"+end), 0o755)
	op.UntilLog("waits", "hook", "prepares")
	if err := os.WriteFile(end, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(op, t, "other v1: all Synchronization")
	fixed := slices.IndexFunc(op.Records(), func(r testenv.Record) bool {
		return r.Fields["msg"] == "Hook executed successfully" && r.Fields["hook"] == "prepares"
	})
	enabled := slices.IndexFunc(op.Records(), func(r testenv.Record) bool { return r.Fields["msg"] == "Enable kubernetes binding for hook" })
	if fixed < 0 || enabled < fixed {
		t.Errorf("bindings were enabled by record %d, before the fixed run succeeded by record %d", enabled, fixed)
	}
}

// A reload that does not concern a hook leaves its back-off alone. One that does ends it, and uses up no attempt.
func TestBackoffIsKept(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	binding := fmt.Sprintf("{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, nameSelector: {matchNames: [none]}, "+
		"namespace: {nameSelector: {matchNames: [%s]}}, "+
		"retry: {limit: 2, minDelay: 1h, maxDelay: 1h, exhausted: drop}}]}", d.ns)
	text := "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '" + binding + "'; exit; fi\necho \"it has %s\"; exit %d\n"
	d.put("fails", fmt.Sprintf(text, "a mistake", 1), 0o755)
	op := start(t, cluster, d)
	op.UntilLog("Hook failed. Will retry after delay.", "hook", "fails")
	d.put("notes.txt", "nothing", 0o644)
	op.UntilLog("No configuration has changed. The next runs use the new files.")
	d.put("fails", fmt.Sprintf(text, "another one", 1), 0o755)
	op.UntilLog("it has another one", "hook", "fails")
	d.put("fails", fmt.Sprintf(text, "success", 0), 0o755)
	op.UntilLog("it has success", "hook", "fails")
	op.UntilLog("Hook executed successfully", "hook", "fails")
	runs := 0
	for _, r := range op.Records() {
		if r.Has("Execute hook") {
			runs++
		}
	}
	if runs != 3 {
		t.Errorf("%d runs:\n%s", runs, op.Log())
	}
}
