package scripts

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// common are the commands of all scripts.
var common = map[string]Command{
	"needs":     needsCommand,
	"operator":  operatorCommand,
	"runs":      runsCommand,
	"log":       logCommand,
	"capture":   captureCommand,
	"nolog":     noLogCommand,
	"after":     afterCommand,
	"signal":    signalCommand,
	"ends":      endsCommand,
	"kubectl":   kubectlCommand,
	"retry":     retryCommand,
	"touch":     touchCommand,
	"namespace": namespaceCommand,
	"account":   accountCommand,
	"granted":   grantedCommand,
	"page":      pageCommand,
}

// needs TOPIC: REASON: only make test-cluster runs the script, which Run has read in its head.
func needsCommand(*World, *testscript.TestScript, bool, []string) {
}

// operator [NAME=VALUE…] [flags…]: start the operator, with a webhook configuration of its own: scripts share the cluster.
func operatorCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	flags := slices.IndexFunc(append(args, "-"), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	w.Operator = testenv.Start(w.T, testenv.OperatorOptions{
		HooksDir: ts.MkAbs("hooks"), Kubeconfig: w.Kubeconfig, Dir: ts.MkAbs("."),
		Args: append([]string{"--validating-webhook-configuration-name", w.Namespace}, args[flags:]...),
		Env:  append([]string{"HOOKS=" + ts.MkAbs("hooks"), "WORK=" + ts.MkAbs("."), "NS=" + w.Namespace}, args[:flags]...),
	})
	ts.Setenv("DEBUG_UNIX_SOCKET", w.Operator.Socket)
}

// runs WHAT FILE: wait until the runs so far, made text by the jq program WHAT, are what FILE says. WHAT gets an
// array of {hook, queue, contexts}, and its outputs are lines.
func runsCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: runs WHAT FILE")
	}
	want := strings.TrimSpace(ts.ReadFile(args[1]))
	filter, err := jq.NewCompiler(jq.Options{}).Compile("[" + shorthand + args[0] + "]")
	ts.Check(err)
	got := ""
	err = w.Operator.TryUntil(test.Patience, func(records []testenv.Record) bool {
		got = runs(filter, records)
		return got == want || len(got) > len(want)+2000
	})
	if got != want {
		if os.Getenv("UPDATE") != "" {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(got+"\n"), 0o644))
		}
		ts.Fatalf("%v\n--- the runs are:\n%s\n--- they should be:\n%s\n--- the log:\n%s", err, got, want, w.Operator.Log())
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
func logCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	count := 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		count = n
	}
	pattern := regexp.MustCompile(args[0])
	err := w.Operator.TryUntil(test.Patience, func(records []testenv.Record) bool { return Matches(pattern, records) >= count })
	if err != nil {
		ts.Fatalf("%q in the log: %v\n%s", args[0], err, w.Operator.Log())
	}
}

// capture NAME REGEXP: wait until a record matches, and set a variable to what the group of the pattern matches.
func captureCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[1])
	ts.Check(w.Operator.TryUntil(test.Patience, func(records []testenv.Record) bool {
		for _, r := range records {
			if found := pattern.FindStringSubmatch(r.Text); found != nil {
				ts.Setenv(args[0], found[1])
				return true
			}
		}
		return false
	}))
}

// after REGEXP REGEXP: wait until a record matches the second one, after one that matches the first.
func afterCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	first, second := regexp.MustCompile(args[0]), regexp.MustCompile(args[1])
	err := w.Operator.TryUntil(test.Patience, func(records []testenv.Record) bool {
		at := slices.IndexFunc(records, func(r testenv.Record) bool { return first.MatchString(r.Text) })
		return at >= 0 && Matches(second, records[at:]) > 0
	})
	if err != nil {
		ts.Fatalf("%q after %q in the log: %v\n%s", args[1], args[0], err, w.Operator.Log())
	}
}

// nolog REGEXP [MOST]: fail if a record matches, or more of them than that.
func noLogCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	most := 0
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		most = n
	}
	if n := Matches(regexp.MustCompile(args[0]), w.Operator.Records()); n > most {
		ts.Fatalf("%q is %d times in the log:\n%s", args[0], n, w.Operator.Log())
	}
}

// Matches counts the records that match.
func Matches(pattern *regexp.Regexp, records []testenv.Record) (n int) {
	for _, r := range records {
		if pattern.MatchString(r.Text) {
			n++
		}
	}
	return n
}

// signal NAME: send a signal to the operator.
func signalCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	w.Operator.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[args[0]])
}

// ends STATUS: wait for the operator's end.
func endsCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	w.Operator.Expect(want)
	if got := w.Operator.Wait(); got != want {
		ts.Fatalf("the operator ended with status %d, not %d\n%s\n%s", got, want, w.Operator.Errors.String(), w.Operator.Log())
	}
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), w.Operator.Errors.Bytes(), 0o644))
}

// kubectl ARGUMENTS: run kubectl in the test's namespace.
func kubectlCommand(w *World, ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("kubectl", args...)
	for err != nil && testenv.HasNoConditions(ts.ReadFile("stderr")) {
		err = ts.Exec("kubectl", args...)
	}
	if (err != nil) != neg {
		ts.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

// retry PATTERN ARGUMENTS: run kubectl until it succeeds with an output that matches; with ! in front, until it fails with one. The API
// server sends no notification when it uses a registration, or a Role.
func retryCommand(w *World, ts *testscript.TestScript, neg bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	for late := time.Now().Add(test.Patience); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec("kubectl", args[1:]...)
		if (err != nil) == neg && pattern.MatchString(ts.ReadFile("stdout")+ts.ReadFile("stderr")) {
			return
		}
		if time.Now().After(late) {
			ts.Fatalf("waited for %q", args[0])
		}
	}
}

// touch FILE…: make empty files, which hooks wait for.
func touchCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), nil, 0o644))
	}
}

// page PATH [STATUS]: get one of the operator's own pages; stdout is what it says.
func pageCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	status := http.StatusOK
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		status = n
	}
	res, err := http.Get(w.Operator.Address() + args[0])
	ts.Check(err)
	defer res.Body.Close()
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
	if res.StatusCode != status {
		ts.Fatalf("%s: %s", args[0], res.Status)
	}
}

// namespace NAME…: create a namespace for each variable.
func namespaceCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Setenv(name, w.Cluster.Namespace(w.T))
		w.Cluster.Kubectl(w.T, "-n", ts.Getenv(name), "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	}
}

// account NAME VARIABLE: create a ServiceAccount, and a kubeconfig with a token of it.
func accountCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	w.Cluster.Kubectl(w.T, "-n", w.Namespace, "create", "serviceaccount", args[0])
	ts.Setenv(args[1], w.Cluster.KubeconfigOf(w.T, w.Namespace, args[0]))
}

// granted ACCOUNT FILE: wait until a ServiceAccount has the permissions of a manifest.
func grantedCommand(w *World, ts *testscript.TestScript, _ bool, args []string) {
	w.Cluster.UntilRoles(w.T, "system:serviceaccount:"+w.Namespace+":"+args[0], w.Namespace, ts.ReadFile(args[1]))
}
