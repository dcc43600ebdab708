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
	cluster := testenv.Shared(t)
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

// commands are those whose answers are in testdata/commands.golden, in this order: some change what the next ones show.
var commands = []string{
	"queue list", "queue list --show-empty", "queue list -o json", "queue list -e -o yaml", "queue main", "queue main -o json",
	"queue main -o yaml",
	"hook list", "hook list -o json", "hook list -o yaml", "hook snapshot shop/ok.sh", "hook snapshot shop/ok.sh -o yaml",
	"hook snapshot d-night.sh -o json",
	"hook config shop/ok.sh", "hook config d-night.sh -o json",
	"runs", "runs shop/ok.sh", "runs --failed", "runs d-night.sh --failed", "runs show 2", "runs show 3-1", "runs show 1-1 -o yaml",
	"runs show 4-1", "runs show 4 -o json",
	"status", "status -o yaml",
	"history shop/ok.sh", "queues list -e", "hooks list", "why shop", "why a-stcuk.sh", "why notes.sh",
	"why a-stuck.sh", "why b-behind.sh", "why c-missing.sh", "why d-night.sh", "why shop/ok.sh", "why b-behind.sh -o json",
	"config list", "config set log.level warn", "config list -o json", "config set log.level error 10m", "config list -o yaml",
	"config set log.level info", "config list",
	"raw", "raw /queue/main.yaml", "raw queue/main.json",
	"hooks", "hooks -o wide", "hooks -o name", "queues", "queues -o name", "queues -o json", "parked", "parked -o json",
	"queue lanes stuck", "queue lanes stuck -o json", "queue lanes stuck --key x", "why --object cm/NAMESPACE/nope",
	"why --object ConfigMap/NAMESPACE/prices", "why --object configmaps/NAMESPACE/prices -o json", "why --object Namespace/NAMESPACE",
	"sets", "finalizers", "runs --limit 1", "runs --since 1h --hook d-night.sh", "runs -o name --failed",
	// mistakes
	"queue nonsense", "queue retry", "queue list -o wide", "parked nonsense", "parked retry", "parked retry 98 99", "parked drop --hook nope",
	"runs --since yesterday", "runs --limit 0", "runs --hook nope.sh", "hooks -w -o json", "hooks -A", "queues -n x", "why -w a-stuck.sh",
	"queue main -o xml", "hook snapshot", "hook snapshot nope.sh", "why nope.sh", "runs nope.sh", "runs show",
	"runs show 99", "queue lanes nope", "why --object Namespace", "why --object Namspace/x", "why --object Namespace/x a-stuck.sh",
	"config set log.level", "config set log.level loud", "config set log.level debug soon", "config set nope x", "raw /nope",
	"raw /queue/main.xml",
}

// onTerminals are commands on a terminal: the same text as elsewhere, but for control characters that hooks print.
var onTerminals = []string{"queue list", "hook list", "runs show 1-1"}

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
	text := "$ shell-operator " + line + "\n" + sorted(line, out.String())
	for l := range strings.Lines(errs.String()) {
		text += "2> " + l
	}
	if exit != nil {
		text += fmt.Sprintf("exit status %d\n", exit.ExitCode())
	}
	return a.normalize(text) + "\n"
}

// sorted sorts runs by their names: those of different queues begin in any order.
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
	minutes   = regexp.MustCompile(`(?m)^ *(failures|runs):\n( *- \d+\n){60}`)
	cluster   = regexp.MustCompile(`(?m)^cluster: .*`)
	columns   = regexp.MustCompile(`(\S) {2,}`)
	ends      = regexp.MustCompile(`(?m) +$`)
)

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }

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
		text = minutes.ReplaceAllString(text, "    $1: COUNTS\n")
		text = times.ReplaceAllString(text, "TIME")
		text = durations.ReplaceAllString(text, "DURATION")
		text = seconds.ReplaceAllString(text, "${1}SECONDS")
		return ends.ReplaceAllString(columns.ReplaceAllString(text, "$1  "), "")
	}}
	var got strings.Builder
	for _, line := range commands {
		got.WriteString(a.ask(t, line))
	}
	got.WriteString("# On a terminal.\n\n")
	for _, line := range onTerminals {
		got.WriteString(a.onTerminal(t, line))
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
