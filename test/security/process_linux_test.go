package security

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const otherUser = 65534

// ordinary is what an operator with an ordinary user needs. As root the program is started by setpriv; everybody else is ordinary already.
type ordinary struct {
	dir, binary, kubeconfig string
	// results is where hooks write.
	results string
}

func newOrdinary(t *testing.T, cluster *testenv.Cluster) ordinary {
	t.Helper()
	dir, err := os.MkdirTemp("", "security-") // a short name: paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	in := func(name string) string { return filepath.Join(dir, name) }
	o := ordinary{dir: dir, binary: in("start"), kubeconfig: in("kubeconfig"), results: in("results")}
	config, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(testenv.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	become := ""
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root needs setpriv, of util-linux, to become another user")
		}
		become = fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups --no-new-privs ", otherUser, otherUser)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(in("tmp"), 0o700), os.Mkdir(o.results, 0o700), os.Mkdir(in("home"), 0o700), os.Mkdir(in("socket"), 0o700),
		os.WriteFile(o.kubeconfig, config, 0o600), os.WriteFile(in("shell-operator"), program, 0o755),
		os.WriteFile(o.binary, fmt.Appendf(nil, "#!/bin/sh\nexec %s%s \"$@\"\n", become, in("shell-operator")), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if become != "" {
		for _, name := range []string{"tmp", "results", "home", "socket", "kubeconfig"} {
			if err := os.Chown(in(name), otherUser, otherUser); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// start starts an operator with hooks. Its debug socket is in the directory, too.
func (o ordinary) start(t *testing.T, files map[string]string, env []string, args ...string) *testenv.Operator {
	t.Helper()
	dir := filepath.Join(o.dir, "hooks")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		testenv.Script(t, dir, name, text)
	}
	return testenv.Start(t, testenv.OperatorOptions{
		Binary: o.binary, HooksDir: dir, Kubeconfig: o.kubeconfig, TmpDir: filepath.Join(o.dir, "tmp", "operator"),
		Args: append([]string{"--debug-unix-socket", o.socket()}, args...),
		Env: append([]string{"HOME=" + filepath.Join(o.dir, "home"), "RESULTS=" + o.results, "PROGRAM=" + filepath.Join(o.dir, "shell-operator"),
			"SOCKET=" + o.socket(), "OPERATOR_SECRET=s3cr3t"}, env...),
	})
}

func (o ordinary) socket() string { return filepath.Join(o.dir, "socket", "debug.socket") }

// result is what a hook has written to a file.
func (o ordinary) result(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.results, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Line "what hooks cannot do": neither read the operator's process, nor find files of other runs, nor change the library or the operator.
func TestProcess(t *testing.T) {
	cluster := testenv.Shared(t)
	o := newOrdinary(t, cluster)
	// With a context, the operator makes a kubeconfig for hooks.
	current := strings.TrimSpace(cluster.Kubectl(t, "config", "current-context"))
	files := map[string]string{}
	for _, name := range []string{"intruder.sh", "running.sh", "victim.sh"} {
		files[name] = testenv.Testdata(t, name)
	}
	op := o.start(t, files, nil, "--hook-home", "own",
		"--kube-context", current)
	op.UntilLog("Debug endpoint listen on address")
	// A person has a console open.
	console := exec.Command(o.binary, "console", "--no-browser", "--debug-unix-socket", o.socket())
	console.Stderr = os.Stderr
	theirs, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	console.Stdin = theirs
	if os.Geteuid() == 0 { // as containerd does
		if err := theirs.Chown(otherUser, otherUser); err != nil {
			t.Fatal(err)
		}
	}
	output, err := console.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := console.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	defer console.Wait()
	defer console.Process.Signal(os.Interrupt)
	defer input.Close()
	named := filepath.Join(o.results, "console")
	pid := fmt.Append(nil, console.Process.Pid)
	if err := errors.Join(os.WriteFile(named+".new", pid, 0o644), os.Rename(named+".new", named)); err != nil {
		t.Fatal(err)
	}
	op.UntilLog("the next run has ended")
	op.UntilLog("the other run has ended")
	if got := o.result(t, "changed"); got != "" {
		t.Errorf("another run has in its files: %s", got)
	}
	if got := o.result(t, "intruder"); got != "" {
		t.Errorf("a hook %s\nits errors are\n%s", got, o.result(t, "errors"))
	}
	if got := strings.Count(o.result(t, "errors"), "not accepted from hooks"); got != 6 {
		t.Errorf("%d commands were refused:\n%s", got, o.result(t, "errors"))
	}
	if got := o.result(t, "victim"); got != "home 0\ncontext "+current+"\n" {
		t.Errorf("the other hook has found: %s", got)
	}
	// Others can act, and the operator can read what it shows of itself.
	pause := exec.Command(o.binary, "hook", "pause", "victim.sh", "--debug-unix-socket", o.socket())
	if out, err := pause.CombinedOutput(); err != nil {
		t.Errorf("outside of hooks: %v: %s", err, out)
	}
	text := op.Page("/metrics")
	for _, name := range []string{"process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds_total"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("the metric %s is missing", name)
		}
	}
}

// Line "what hooks cannot do": with --hook-home=own a hook keeps its HOME between its runs and over a reload, until it is removed. Hooks
// get a kubeconfig from the operator's HOME.
func TestOwnHomes(t *testing.T) {
	cluster := testenv.Shared(t)
	o := newOrdinary(t, cluster)
	kube := filepath.Join(o.dir, "home", ".kube")
	if err := os.Mkdir(kube, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(o.kubeconfig, filepath.Join(kube, "config")); err != nil {
		t.Fatal(err)
	}
	o.kubeconfig = ""
	op := o.start(t, map[string]string{"keeper.sh": testenv.Testdata(t, "keeper.sh", "VERSION", "first")}, nil, "--hook-home", "own",
		"--watch-hooks", "--log-level", "debug")
	runs := func(n int) { op.UntilCount(n, "Hook executed successfully") }
	runs(1)
	if got := o.result(t, "first"); got != "config\nrun\n" {
		t.Errorf("the first run finds %q", got)
	}
	if got, want := o.result(t, "server"), cluster.Kubectl(t, "config", "view", "-o", "jsonpath={.clusters[*].cluster.server}"); got != want {
		t.Errorf("kubectl is sent to %q, want %q", got, want)
	}
	home := strings.TrimSpace(o.result(t, "home"))
	file := filepath.Join(o.dir, "hooks", "keeper.sh")
	if err := os.WriteFile(file+".new", []byte(testenv.Testdata(t, "keeper.sh", "VERSION", "second", "onStartup: 1", "onStartup: 2")),
		0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	runs(2)
	if got := o.result(t, "second"); !strings.HasPrefix(got, "config\nrun\nconfig\n") || !strings.HasSuffix(got, "\nrun\n") {
		t.Errorf("after a reload a run finds %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	op.UntilLog("The home directory of a hook is removed", "hook", "keeper.sh")
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
