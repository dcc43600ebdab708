// Package conformance runs the checklists of the protocol against a real control plane: one file in testdata for each
// point. A file is a script and what it needs: hooks/NAME.yaml is the configuration of a hook, for which a hook that
// prints its binding contexts is made; hooks/lib/NAME is shell code that the hook runs, before it prints (its status
// is the hook's).
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/heads"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestConformance(t *testing.T) { conformance(t, "testdata", process) }

func conformance(t *testing.T, dir string, as recorder) {
	cluster := testenv.Shared(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup:               func(e *testscript.Env) error { return setup(e, cluster, as) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"operator": operatorCommand,
			"runs":     runsCommand,
			"log":      logCommand,
			"nolog":    noLogCommand,
			"signal":   signalCommand,
			"ends":     endsCommand,
			"kubectl":  kubectlCommand,
			"touch":    touchCommand,
			"page":     pageCommand,
			"shown":    shownCommand,
			"after":    afterCommand,
			"request":  requestCommand,
		},
	})
}

// world is what the commands of one script share.
type world struct {
	t          testing.TB
	cluster    *testenv.Cluster
	namespace  string
	kubeconfig string
	operator   *testenv.Operator
}

type worldKey struct{}

// recorder is the hook that every configuration gets.
type recorder struct {
	script string
	// config changes the configuration; nil changes nothing.
	config func(text []byte) []byte
}

// process prints one line, whatever the size of its contexts.
var process = recorder{script: `#!/bin/sh
if [ "$1" = --config ]; then exec cat "$0.yaml"; fi
lib=$HOOKS/lib/$(basename "$0")
if [ -e "$lib" ]; then . "$lib" || exit; fi
printf 'run '
cat "$BINDING_CONTEXT_PATH"
`}

func setup(e *testscript.Env, cluster *testenv.Cluster, as recorder) error {
	t, ok := e.T().(testing.TB)
	if !ok {
		return errors.New("testscript no longer hands over the *testing.T")
	}
	w := &world{t: t, cluster: cluster, namespace: cluster.Namespace(t)}
	w.kubeconfig = cluster.KubeconfigFor(t, cluster.Kubeconfig, w.namespace)
	hooks := filepath.Join(e.WorkDir, "hooks")
	e.Vars = slices.Concat(e.Vars, testenv.KubectlVariables(t), []string{"NS=" + w.namespace, "KUBECONFIG=" + w.kubeconfig,
		"ALICE=" + cluster.KubeconfigFor(t, cluster.UserKubeconfig, w.namespace), "HOOKS=" + hooks, "OPERATOR=" + testenv.Binary(t),
		"GORACE=" + os.Getenv("GORACE")})
	e.Values[worldKey{}] = w
	if as.config == nil {
		e.Defer(w.checkHeads)
	}
	return prepare(hooks, w.namespace, as)
}

// checkHeads compares the heads of all contexts that the last operator has delivered with what the shell library reads of them with jq.
func (w *world) checkHeads() {
	if w.operator == nil {
		return
	}
	var all []json.RawMessage
	for _, r := range w.operator.Records() {
		var contexts []json.RawMessage
		if text, ok := strings.CutPrefix(r.Fields["msg"], "run "); ok && json.Unmarshal([]byte(text), &contexts) == nil {
			all = append(all, contexts...)
		}
	}
	if text, err := json.Marshal(all); err == nil && len(all) > 0 {
		heads.Check(w.t, text)
	}
}

// prepare makes a hook of each configuration. In all files $NS stands for the test's namespace.
func prepare(hooks, namespace string, as recorder) error {
	return filepath.WalkDir(filepath.Dir(hooks), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if replaced := strings.ReplaceAll(string(text), "$NS", namespace); replaced != string(text) {
			if err := os.WriteFile(path, []byte(replaced), 0o644); err != nil {
				return err
			}
		}
		name, isConfig := strings.CutSuffix(path, ".yaml")
		if !isConfig || !strings.HasPrefix(path, hooks) {
			return nil
		}
		if as.config != nil {
			if text, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(path, as.config(text), 0o644)
			}
			if err != nil {
				return err
			}
		}
		return os.WriteFile(name, []byte(as.script), 0o755)
	})
}

func of(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// operator [flags…]: start the operator.
func operatorCommand(ts *testscript.TestScript, _ bool, args []string) {
	w := of(ts)
	w.operator = testenv.Start(w.t, testenv.OperatorOptions{
		HooksDir: ts.MkAbs("hooks"), Kubeconfig: w.kubeconfig, Dir: ts.MkAbs("."), Args: args,
		Env: []string{"HOOKS=" + ts.MkAbs("hooks"), "WORK=" + ts.MkAbs("."), "NS=" + w.namespace},
	})
	ts.Setenv("DEBUG_UNIX_SOCKET", w.operator.Socket)
}

// runs WHAT FILE: wait until the runs so far, made text by the jq program WHAT, are what FILE says. WHAT gets an
// array of {hook, queue, contexts}, and its outputs are lines.
func runsCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: runs WHAT FILE")
	}
	w := of(ts)
	want := strings.TrimSpace(ts.ReadFile(args[1]))
	filter, err := jq.NewCompiler(jq.Options{}).Compile("[" + shorthand + args[0] + "]")
	ts.Check(err)
	got := ""
	err = w.operator.TryUntil(test.Patience, func(records []testenv.Record) bool {
		got = runs(filter, records)
		return got == want || len(got) > len(want)+2000
	})
	if got != want {
		if os.Getenv("UPDATE") != "" {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(got+"\n"), 0o644))
		}
		ts.Fatalf("%v\n--- the runs are:\n%s\n--- they should be:\n%s\n--- the log:\n%s", err, got, want, w.operator.Log())
	}
}

// shorthand are words for the scripts' jq programs.
const shorthand = `
def subject: .object.metadata.name // .resourceName // (.filterResult | strings) // "";
def items: map(subject) | join(" ") | "[\(.)]";
def context:
	[.binding, .type, .groupName, .watchEvent, .resourceEvent, subject, (.objects // empty | items),
		(.snapshots // {} | to_entries[] | "\(.key)=\(.value | items)")]
	| map(select(. != null and . != "")) | join(" ");
def line: .hook + ": " + (.contexts | map(context) | join(", "));
`

func runs(filter *jq.Filter, records []testenv.Record) string {
	all := []any{}
	for _, r := range records {
		text, ok := strings.CutPrefix(r.Fields["msg"], "run ")
		if !ok || r.Fields["output"] != "stdout" {
			continue
		}
		contexts, err := jq.Decode([]byte(text))
		if err != nil {
			return err.Error()
		}
		all = append(all, map[string]any{"hook": r.Fields["hook"], "queue": r.Fields["queue"], "contexts": contexts})
	}
	text, err := filter.Apply(context.Background(), any(all))
	if err != nil {
		return err.Error()
	}
	var lines []any
	if err := json.Unmarshal(text, &lines); err != nil {
		return err.Error()
	}
	var out []string
	for _, l := range lines {
		if s, ok := l.(string); ok {
			out = append(out, s)
			continue
		}
		text, _ := json.Marshal(l)
		out = append(out, string(text))
	}
	return strings.Join(out, "\n")
}

// log REGEXP [COUNT]: wait until COUNT records match.
func logCommand(ts *testscript.TestScript, _ bool, args []string) {
	w, count := of(ts), 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		count = n
	}
	pattern := regexp.MustCompile(args[0])
	err := w.operator.TryUntil(test.Patience, func(records []testenv.Record) bool { return matches(pattern, records) >= count })
	if err != nil {
		ts.Fatalf("%q in the log: %v\n%s", args[0], err, w.operator.Log())
	}
}

// nolog REGEXP: fail if a record matches.
func noLogCommand(ts *testscript.TestScript, _ bool, args []string) {
	if w := of(ts); matches(regexp.MustCompile(args[0]), w.operator.Records()) > 0 {
		ts.Fatalf("%q is in the log:\n%s", args[0], w.operator.Log())
	}
}

func matches(pattern *regexp.Regexp, records []testenv.Record) (n int) {
	for _, r := range records {
		if pattern.MatchString(r.Text) {
			n++
		}
	}
	return n
}

// signal NAME: send a signal to the operator.
func signalCommand(ts *testscript.TestScript, _ bool, args []string) {
	of(ts).operator.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[args[0]])
}

// ends STATUS: wait for the operator's end.
func endsCommand(ts *testscript.TestScript, _ bool, args []string) {
	w := of(ts)
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	w.operator.Expect(want)
	if got := w.operator.Wait(); got != want {
		ts.Fatalf("the operator ended with status %d, not %d\n%s\n%s", got, want, w.operator.Errors.String(), w.operator.Log())
	}
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), w.operator.Errors.Bytes(), 0o644))
}

// kubectl ARGUMENTS: run kubectl in the test's namespace.
func kubectlCommand(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("kubectl", args...)
	for err != nil && testenv.HasNoConditions(ts.ReadFile("stderr")) {
		err = ts.Exec("kubectl", args...)
	}
	if (err != nil) != neg {
		ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// touch FILE…: make empty files, which hooks wait for.
func touchCommand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), nil, 0o644))
	}
}

// page PATH [STATUS]: get one of the operator's own pages; stdout is what it says.
func pageCommand(ts *testscript.TestScript, _ bool, args []string) {
	status := http.StatusOK
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		status = n
	}
	res, err := http.Get(of(ts).operator.Address() + args[0])
	ts.Check(err)
	defer res.Body.Close()
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
	if res.StatusCode != status {
		ts.Fatalf("%s: %s", args[0], res.Status)
	}
}
