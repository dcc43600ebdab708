package insight

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// marker must not be in a view that others read.
const marker = "hunter-22"

// more are failures of which the operator knows more than the process: the message of the result file, and an end without one.
const more = `
-- says.sh --
#!/bin/sh
# config
echo ` + marker + ` >&2
echo 'message: no answer from db' >"$RUN_RESULT_PATH"
exit 4
-- says.sh: cause --
no answer from db
-- secret.sh --
#!/bin/sh
# config
echo ` + marker + ` >&2
exit 4
-- secret.sh: cause --
` + marker + `
-- worker.py --
#!/usr/bin/env python3
# config: settings.worker
from shell_operator_hook import Hook
hook = Hook('CONFIG')
@hook.otherwise
def handle(context):
    raise RuntimeError("` + marker + `")
hook.run()
-- worker.py: cause --
RuntimeError: ` + marker + ` (worker.py:7, in handle)
-- rejected.sh --
#!/bin/sh
# config
echo '{operation: Create}' >"$KUBERNETES_PATCH_PATH"
-- rejected.sh: cause --
the file that $KUBERNETES_PATCH_PATH names is not valid, nothing of it was carried out:
`

// The failures of run/process, and some of the operator's, in every view of the people who may read the log. Other views have what the hook
// wrote for them, or the exit status.
func TestCausesInEveryView(t *testing.T) {
	t.Parallel()
	cluster := testenv.Either(t)
	namespace, dir, causes := cluster.Namespace(t), t.TempDir(), map[string]string{}
	add := func(folder string, a *txtar.Archive) {
		for i := 0; i < len(a.Files); i += 2 {
			name, text := folder+"/"+a.Files[i].Name, string(a.Files[i].Data)
			if !strings.Contains(text, "# config") { // it does not print its configuration, either
				continue
			}
			config := func(settings string) string {
				return `{configVersion: v1, settings: {retry: {limit: 2, minDelay: 1h, maxDelay: 1h}` + settings + `}, kubernetes: [{name: cms, ` +
					`kind: ConfigMap, queue: ` + name + `, executeHookOnSynchronization: false, executeHookOnEvent: [Added], namespace: ` +
					`{nameSelector: {matchNames: [` + namespace + `]}}}]}`
			}
			prints := `if [ "${1:-}" = --config ]; then echo '` + config("") + `'; exit; fi`
			if strings.HasSuffix(name, ".py") {
				prints = `import sys; sys.argv[1:] == ["--config"] and (print('''` + config("") + `'''), sys.exit())`
			}
			text = strings.Replace(text, "# config\n", prints+"\n", 1)
			testenv.Script(t, dir, name, strings.Replace(text, "CONFIG", config(", worker: true"), 1))
			testenv.Script(t, dir, name+"_test.yaml", "hook: "+filepath.Base(name)+"\ncases:\n- name: it fails\n  event: {Added: ../menu.yaml}\n")
			causes[name] = strings.TrimSpace(string(a.Files[i+1].Data))
		}
	}
	files, _ := filepath.Glob("../../internal/run/process/testdata/causes/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(strings.TrimSuffix(filepath.Base(file), ".txtar"), a)
	}
	add("more", txtar.Parse([]byte(more)))
	if len(causes) < 40 {
		t.Fatalf("there are %d failures", len(causes))
	}
	testenv.Script(t, dir, "menu.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: menu, namespace: "+namespace+"}}")

	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig})
	op.UntilCount(len(causes), "Kubernetes bindings for hook are enabled successfully")
	shows := func(view string, text func(name string) string) {
		t.Helper()
		for name, cause := range causes {
			// A view may put more behind it, and the place is in the folder of the hook.
			if got := strings.ReplaceAll(text(name), name, filepath.Base(name)); !strings.Contains(got, cause) {
				t.Errorf("%s of %s lacks %q:\n%s", view, name, cause, got)
			}
		}
	}
	same := func(text string) func(string) string { return func(string) string { return text } }
	cluster.Kubectl(t, "create", "configmap", "menu", "-n", namespace)
	logged := map[string]string{}
	for name := range causes {
		failed := op.UntilLog("Hook failed. Will retry after delay.", "hook", name)
		logged[name] = failed.Fields["error"]
	}
	shows("the log", func(name string) string { return logged[name] })
	shows("runs", same(op.Ask("runs")))
	shows("why", func(name string) string { return op.Ask("why", name) })
	shows("why --object", same(op.Ask("why", "--object", "ConfigMap/"+namespace+"/menu")))
	shows("queue list", same(op.Ask("queue", "list")))
	shows("queue lanes", func(name string) string { return op.Ask("queue", "lanes", name) })
	shows("status", same(stringsIn(t, op)))
	var followed test.Text
	tail := op.Command("tail", "--last", "100")
	tail.Stdout = &followed
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tail.Process.Kill(); _ = tail.Wait() }()
	followed.Until(t, " ended: ", len(causes))
	shows("tail", same(followed.String()))
	show := open(t, op)
	shows("the console", func(name string) string { return show("/hooks/" + name) })
	tested, _ := exec.Command(testenv.Binary(t), "test", dir).CombinedOutput()
	shows("test", same(string(tested)))

	says, secret := `Hook "more/says.sh" has no attempt left`, `Hook "more/secret.sh" has no attempt left`
	op.Ask("queue", "retry", "more/says.sh")
	op.Ask("queue", "retry", "more/secret.sh")
	notes := ""
	for late := time.Now().Add(test.Patience); !strings.Contains(notes, says) || !strings.Contains(notes, secret); {
		if time.Now().After(late) {
			t.Fatalf("the Events are %s", notes)
		}
		time.Sleep(100 * time.Millisecond)
		notes = cluster.Kubectl(t, "-n", namespace, "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}")
	}
	for name := range causes {
		op.Ask("queue", "retry", name)
	}
	op.UntilCount(len(causes), "Hook failed. No attempt is left, its contexts are parked.")
	shows("parked", same(op.Ask("parked")))
	shows("why of a parked one", func(name string) string { return op.Ask("why", name) })
	shows("status with parked ones", same(stringsIn(t, op)))

	for _, want := range []string{`its contexts are parked: no answer from db`, `its contexts are parked: exit status 4`} {
		if !strings.Contains(notes, want) {
			t.Errorf("the Events lack %q: %s", want, notes)
		}
	}
	for _, path := range []string{"/", "/status.json", "/readyz", "/metrics", "/metrics/hooks"} {
		if text := op.Page(path); strings.Contains(text, marker) {
			t.Errorf("%s has what a hook has printed: %s", path, text)
		}
	}
	if strings.Contains(notes, marker) {
		t.Errorf("the Events have what a hook has printed: %s", notes)
	}
	if text := op.Page("/status.json"); !strings.Contains(text, "no answer from db") {
		t.Errorf("the status page lacks the message of a hook: %s", text)
	}
}

// stringsIn are all texts in the status in JSON.
func stringsIn(t *testing.T, op *testenv.Operator) string {
	t.Helper()
	out, _ := op.Command("status", "-o", "json").Output() // it ends with status 1
	var status struct{ Troubles []struct{ Problem string } }
	if err := json.Unmarshal(out, &status); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(status)
}

// open starts a console and returns the text of its pages.
func open(t *testing.T, op *testenv.Operator) (show func(path string) string) {
	t.Helper()
	cmd, out := op.Command("console", "--no-browser"), &test.Text{}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	out.Until(t, "\n", 1)
	_, address, _ := strings.Cut(strings.Split(out.String(), "\n")[0], "Open ")
	at, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client, base := &http.Client{Jar: jar, Timeout: test.Patience}, "http://"+at.Host+strings.TrimSuffix(at.Path, "/open")
	res, err := client.PostForm(base+"/open", url.Values{"token": {at.Fragment}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusNoContent {
		t.Fatal(res.Status)
	}
	return func(path string) string {
		res, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return html.UnescapeString(string(text))
	}
}
