// Package reload changes the files of hooks while an operator runs with --watch-hooks.
package reload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook takes its configuration from the file beside it, and prints its contexts in one line, after what it is.
const script = `#!/bin/sh
if [ "$1" = --config ]; then exec cat "$0.yaml"; fi
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
	d.config(name, config)
	d.put(name, fmt.Sprintf(script, version), 0o755)
}

func (d dir) config(name, config string) {
	d.t.Helper()
	d.put(name+".yaml", strings.ReplaceAll(config, "$NS", d.ns), 0o644)
}

// put replaces a file as programs do that never leave half of one.
func (d dir) put(name, text string, mode os.FileMode) {
	d.t.Helper()
	path := filepath.Join(d.path, name)
	if err := errors.Join(os.WriteFile(filepath.Join(d.path, ".new"), []byte(text), mode), os.Chmod(filepath.Join(d.path, ".new"), mode), os.Rename(filepath.Join(d.path, ".new"), path)); err != nil {
		d.t.Fatal(err)
	}
}

func (d dir) remove(name string) {
	d.t.Helper()
	if err := errors.Join(os.Remove(filepath.Join(d.path, name)), os.Remove(filepath.Join(d.path, name+".yaml"))); err != nil {
		d.t.Fatal(err)
	}
}

type object struct{ Metadata struct{ Name string } }

// told is what a hook was told in one context: "hook version: binding what".
func told(records []testenv.Record) (all []string) {
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

// until waits until hooks have been told exactly this, in this order for each hook.
func until(op *testenv.Operator, t *testing.T, want ...string) {
	t.Helper()
	var got []string
	err := op.TryUntil(testenv.Patience, func(records []testenv.Record) bool {
		got = told(records)
		return len(got) >= len(want)
	})
	if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Fatalf("%v: hooks were told\n%s\nwant\n%s\nlog\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"), op.Log())
	}
}

func configMap(t *testing.T, c *testenv.Cluster, ns, name string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "create", "configmap", name)
}

// reloaded waits for the nth time that hooks were loaded anew.
func reloaded(op *testenv.Operator, n int) testenv.Record {
	var found testenv.Record
	op.Until(fmt.Sprintf("reload %d", n), func(records []testenv.Record) bool {
		seen := 0
		for _, r := range records {
			if r.Has("Hooks are loaded anew") {
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

// Bindings that stay keep what they know; others come and go. A mistake changes nothing.
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
	want = append(want, "one v2: secrets Synchronization s")
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
	d.config("two", "{configVersion: v1, kubernetes: [{kinds: Pod, password: hunter2}]}")
	op.UntilLog("The hooks cannot be loaded anew, those from before go on")
	pages := op.UntilLog("base http server started")
	response, err := http.Get("http://" + net.JoinHostPort(pages.Fields["address"], pages.Fields["port"]) + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), `the last reload was rejected, the previous hooks stay active: hook "two": the configuration is not valid: `) {
		t.Errorf("%d: %s, %v", response.StatusCode, text, err)
	}
	metrics, err := http.Get("http://" + net.JoinHostPort(pages.Fields["address"], pages.Fields["port"]) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	counted, err := io.ReadAll(metrics.Body)
	metrics.Body.Close()
	if err != nil || !strings.Contains(string(counted), `shell_operator_hooks_reloads_total{result="error"} 1`) {
		t.Errorf("the metrics do not count it: %s, %v", counted, err)
	}
	// Pages have no password, so they show nothing that a hook has printed.
	home, err := http.Get("http://" + net.JoinHostPort(pages.Fields["address"], pages.Fields["port"]) + "/")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := io.ReadAll(home.Body)
	home.Body.Close()
	if err != nil || !strings.Contains(string(shown), "The last reload was rejected") {
		t.Errorf("the page: %s, %v", shown, err)
	}
	for _, page := range []string{string(text), string(shown)} {
		if strings.Contains(page, "hunter2") {
			t.Errorf("a page shows what a hook has printed: %s", page)
		}
	}
	why, err := exec.Command(testenv.Binary(t), "why", "one", "--debug-unix-socket", op.Socket).Output()
	if err != nil || !strings.HasPrefix(string(why), "one: waiting for events\n") || !strings.Contains(string(why), "the last reload was rejected: shell-operator status shows the cause") || strings.Contains(string(why), "hunter2") {
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

// Under a stream of events none is lost and none comes twice, and each run is of one version as a whole.
func TestReloadUnderStream(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	const versions = 8
	maps := `{name: maps, kind: ConfigMap, labelSelector: {matchLabels: {stream: "yes"}}, namespace: {nameSelector: {matchNames: [$NS]}}, keepFullObjectsInMemory: true}`
	// Each version has another number of bindings before the one that stays, so that its place changes.
	config := func(version int) string {
		all := []string{}
		for i := range version % 3 {
			all = append(all, fmt.Sprintf(watching, fmt.Sprintf("other-%d-%d", version, i), "Secret", "none"))
		}
		return bindings(append(all, maps)...)
	}
	d.hook("hook", "v0", config(0))
	op := start(t, cluster, d)
	op.UntilLog("Unlock kubernetes.Event tasks")

	client, err := kubernetes.NewForConfig(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"stream": "yes"}}}
		if _, err := client.CoreV1().ConfigMaps(d.ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	// The stream goes on until the last version is there.
	over := make(chan struct{})
	objects := 0
	writing.Go(func() {
		for pace := time.NewTicker(10 * time.Millisecond); ; objects++ {
			create(fmt.Sprintf("o-%d", objects))
			select {
			case <-over:
				pace.Stop()
				objects++
				return
			case <-pace.C:
			}
		}
	})
	for version := 1; version <= versions; version++ {
		d.hook("hook", fmt.Sprintf("v%d", version), config(version))
		reloaded(op, version)
	}
	close(over)
	writing.Wait()
	create("last")

	seen := map[string]int{}
	op.Until("the last object", func(records []testenv.Record) bool {
		clear(seen)
		for _, line := range told(records) {
			if _, name, ok := strings.Cut(line, ": maps Added "); ok {
				seen[name]++
			}
		}
		return seen["last"] > 0
	})
	t.Logf("%d objects while the hooks were loaded anew %d times", objects, versions)
	for i := range objects {
		if n := seen[fmt.Sprintf("o-%d", i)]; n != 1 {
			t.Errorf("object %d was told %d times", i, n)
		}
	}
	for _, line := range told(op.Records()) {
		if strings.Contains(line, ": maps Synchronization o-") {
			t.Errorf("the binding that stays was synchronized again: %s", line)
		}
	}
}

// Scripts of a mounted ConfigMap have no execute permission, and are swapped by a link.
func TestMountedConfigMap(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	mount := func(version, text string) {
		t.Helper()
		in := filepath.Join(d.path, "..data")
		if err := errors.Join(
			os.Mkdir(filepath.Join(d.path, version), 0o755),
			os.WriteFile(filepath.Join(d.path, version, "hook.sh"), []byte(text), 0o644),
			os.Symlink(version, in+"_tmp"), os.Rename(in+"_tmp", in),
		); err != nil {
			t.Fatal(err)
		}
	}
	text := func(version, name string) string {
		return "#!/bin/sh -e\nif [ \"$1\" = --config ]; then echo '" + strings.ReplaceAll(bindings(fmt.Sprintf(watching, name, "ConfigMap", "x")), "$NS", d.ns) +
			"'; exit; fi\nprintf 'run " + version + " '; cat \"$BINDING_CONTEXT_PATH\"\n"
	}
	mount("..1", text("v1", "first"))
	if err := os.Symlink("..data/hook.sh", filepath.Join(d.path, "hook.sh")); err != nil {
		t.Fatal(err)
	}
	op := start(t, cluster, d)
	until(op, t, "hook.sh v1: first Synchronization")
	mount("..2", text("v2", "second"))
	until(op, t, "hook.sh v1: first Synchronization", "hook.sh v2: second Synchronization")
}

// Hooks that answer come and go, too.
func TestReloadWebhooks(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	d.hook("other", "v1", "{configVersion: v1, onStartup: 1}")
	op := start(t, cluster, d, "--validating-webhook-configuration-name", d.ns, "--http-listen-port", "0")
	until(op, t, "other v1: onStartup")

	review := "{configVersion: v1, kubernetesValidating: [{name: " + d.ns + ".example.com, namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}}," +
		" rules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}]}"
	d.config("review", review)
	deny := func(why string) {
		d.put("review", "#!/bin/sh\nif [ \"$1\" = --config ]; then exec cat \"$0.yaml\"; fi\necho '{\"allowed\": false, \"message\": \""+why+"\"}' > $VALIDATING_RESPONSE_PATH\n", 0o755)
	}
	deny("first")
	op.UntilLog("Webhooks are registered")
	refused := func(why string) {
		t.Helper()
		if out, err := cluster.TryKubectl("", "-n", d.ns, "create", "configmap", "x"); err == nil || !strings.Contains(string(out), why) {
			t.Errorf("%s, %v: want %q", out, err, why)
		}
	}
	refused("first")
	deny("second") // the configuration is the same, so this needs no new registration
	op.UntilLog("No configuration has changed. The new files count from the next runs on.")
	refused("second")

	d.hook("web", "v1", "{configVersion: v1, http: [{method: GET, path: /hello}]}")
	served := op.UntilLog("HTTP hooks are served")
	reloaded(op, 2)
	response, err := http.Get("http://" + served.Fields["address"] + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent && response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", response.StatusCode)
	}

	d.remove("review")
	reloaded(op, 3)
	cluster.Kubectl(t, "wait", "--for=delete", "validatingwebhookconfiguration/"+d.ns+"-hooks", "--timeout=60s")
	configMap(t, cluster, d.ns, "x")
}

// A hook that writes into the hooks directory has everything loaded anew a few times, and then it is named. Its failed run
// would be tried again at once each time.
func TestStateInHooksDirectory(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	d.put("stateful", "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi\ndate +%s%N >state; exit 1\n", 0o755)
	op := start(t, cluster, d)
	warning := op.UntilLog("A file in the hooks directory that is no hook changes again and again: let hooks write elsewhere")
	if path := warning.Fields["path"]; filepath.Base(path) != "state" {
		t.Errorf("it names %q", path)
	}
	// A hook that changes counts at once all the same.
	d.hook("other", "v1", "{configVersion: v1, onStartup: 1}")
	reloaded(op, 1)
	loads, warnings := 0, 0
	for _, r := range op.Records() {
		switch {
		case r.Has("Files of hooks have changed. Load all hooks anew."):
			loads++
		case r.Has(warning.Fields["msg"]):
			warnings++
		}
	}
	if loads != 6 || warnings != 1 {
		t.Errorf("hooks were loaded anew %d times, with %d warnings:\n%s", loads, warnings, op.Log())
	}
}
