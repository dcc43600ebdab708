// Package insight tests the commands for a running operator, as users run them.
package insight

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// started is an operator in a state that does not change by itself: a hook that has failed and is tried again in an hour,
// one behind it, one whose CRD is missing, one for the clock, and one that works.
func started(t *testing.T) (op *testenv.Operator, namespace string) {
	cluster := testenv.Either(t)
	namespace = cluster.Namespace(t)
	cluster.Kubectl(t, "create", "configmap", "prices", "-n", namespace, "--from-literal=tea=2")
	op = testenv.Start(t, testenv.OperatorOptions{
		HooksDir: "testdata/hooks", Kubeconfig: cluster.Kubeconfig, Env: []string{"INSIGHT_NAMESPACE=" + namespace, "TZ=UTC"},
		Args: []string{"--retry-min-delay", "1h", "--retry-max-delay", "1h"},
	})
	op.UntilLog("Hook failed. Will retry after delay.", "hook", "a-stuck.sh")
	op.UntilLog("Enable Kubernetes binding for hook failed", "hook", "c-missing.sh")
	op.UntilLog("Schedule binding for hook enabled successfully", "hook", "d-night.sh")
	op.UntilLog("Hook executed successfully", "hook", "shop/ok.sh")
	// When this change has passed the main queue, nothing of the start is left in it.
	cluster.Kubectl(t, "patch", "configmap", "prices", "-n", namespace, "--patch", `{"data":{"tea":"3"}}`)
	op.UntilLog("Hook executed successfully", "hook", "shop/ok.sh", "task.id", "5")
	return op, namespace
}

// asker runs the program as a user does.
type asker struct {
	binary    string
	env       []string
	namespace string
	normalize func(string) string
}

func (a *asker) command(line string) *exec.Cmd {
	cmd := exec.Command(a.binary, strings.Fields(strings.ReplaceAll(line, "NAMESPACE", a.namespace))...)
	cmd.Env = append(os.Environ(), a.env...)
	return cmd
}

// ask returns what a command printed, errors marked, and its exit status if it is not 0.
func (a *asker) ask(t *testing.T, line string) string {
	var out, errs bytes.Buffer
	cmd := a.command(line)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text := sorted(line, out.String())
	for l := range strings.Lines(errs.String()) {
		text += "2> " + l
	}
	if exit != nil {
		text += fmt.Sprintf("exit status %d\n", exit.ExitCode())
	}
	return "$ shell-operator " + line + "\n" + a.normalize(text) + "\n"
}

// sorted sorts runs by their names: runs of different queues begin in any order.
func sorted(line, text string) string {
	if !strings.HasPrefix(line, "runs") || strings.Contains(line, "show") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines[min(1, len(lines)):])
	return strings.Join(lines, "")
}

var (
	times     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	precise   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z`)
	durations = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b|\b\d+[mhd]\b`)
	seconds   = regexp.MustCompile(`\b((?:took|waited|for|retryIn)"?: ?)[-\d.e]+`)
	cluster   = regexp.MustCompile(`(?m)^cluster: .*`)
	columns   = regexp.MustCompile(`(\S) {2,}`)
	ends      = regexp.MustCompile(`(?m) +$`)
)

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }

// TestCommands asks the commands of testdata/commands.golden, in its order: a new one is added there, and its answer with -update.
func TestCommands(t *testing.T) {
	op, namespace := started(t)
	hooks, err := filepath.Abs("testdata/hooks")
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{testenv.Binary(t), []string{"DEBUG_UNIX_SOCKET=" + op.Socket}, namespace, func(text string) string {
		text = strings.NewReplacer(namespace, "NAMESPACE", hooks, "HOOKS", op.Socket, "SOCKET", "\r\n", "\n").Replace(text)
		text = precise.ReplaceAllString(text, "TIME")
		text = cluster.ReplaceAllString(text, "cluster: CLUSTER")
		text = times.ReplaceAllString(text, "TIME")
		text = durations.ReplaceAllString(text, "DURATION")
		text = seconds.ReplaceAllString(text, "${1}SECONDS")
		return ends.ReplaceAllString(columns.ReplaceAllString(text, "$1  "), "")
	}}
	answers, err := os.ReadFile("testdata/commands.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	ask := a.ask
	for line := range strings.Lines(string(answers)) { // some commands change what the next ones show
		if line == "# On a terminal.\n" { // the same text as elsewhere, but for control characters that hooks print
			got.WriteString(line + "\n")
			ask = a.onTerminal
		}
		if command, ok := strings.CutPrefix(line, "$ shell-operator "); ok {
			got.WriteString(ask(t, strings.TrimSuffix(command, "\n")))
		}
	}
	if strings.Contains(got.String(), "secret-value") {
		t.Error("a value that a hook has sent to the API server is shown")
	}
	golden.Compare(t, "testdata/commands.golden", got.String())
}

// A watched list is printed again until Ctrl-C.
func TestWatch(t *testing.T) {
	op, _ := started(t)
	a := &asker{binary: testenv.Binary(t), env: []string{"DEBUG_UNIX_SOCKET=" + op.Socket}}
	for command, begin := range map[string]string{"queue list --watch -t 10ms": "Summary:",
		"queue list --watch -t nonsense": "Summary:", "runs shop/ok.sh -w": "ID "} { // nonsense means a second
		cmd := a.command(command)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(test.Patience, func() { _ = cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		for shown := 0; shown < 2 && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), begin) {
				shown++
			}
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // until it ends
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s, after Ctrl-C: %v", command, err)
		}
		hung.Stop()
	}
}

// A socket of another user: internal/debug has those that are missing, old or busy.
func TestForeignSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "insight-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, binary := filepath.Join(dir, "foreign"), filepath.Join(dir, "shell-operator")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := os.ReadFile(testenv.Binary(t))
	// Others may enter the folder, but not use what is in it.
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.Chmod(socket, 0), os.WriteFile(binary, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "hooks", "--debug-unix-socket", socket)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	const want = "belongs to another user\nHint: run the command as the user of the operator, for instance with sudo -u\n"
	if out, err := cmd.CombinedOutput(); err == nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}
