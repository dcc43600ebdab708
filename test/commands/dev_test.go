package commands

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// session is a running dev.
type session struct {
	cmd      *exec.Cmd
	out, err test.Text
	tmp      string
}

// develop starts dev with temporary files below a short path of its own.
func develop(t *testing.T, args ...string) *session {
	t.Helper()
	tmp, err := os.MkdirTemp("", "dev-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	s := &session{cmd: exec.Command(testenv.Binary(t), append([]string{"dev"}, args...)...), tmp: tmp}
	s.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// end sends Ctrl-C and checks that nothing of the session is left.
func (s *session) end(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s%s", err, s.out.String(), s.err.String())
	}
	left, err := os.ReadDir(s.tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v in its temp directory, %v", left, err)
	}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte("TMPDIR="+s.tmp+"\x00")) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			t.Errorf("it left a process: %q", name)
		}
	}
}

// devHooks are a directory with a hook, its tests, a webhook and an object.
func devHooks(t *testing.T, c *testenv.Cluster) string {
	t.Helper()
	dir := t.TempDir()
	command(t, c.Kubeconfig, "init", filepath.Join(dir, "maps.sh"), "--kind", "ConfigMap")
	command(t, c.Kubeconfig, "init", filepath.Join(dir, "check.sh"), "--binding", "validating", "--kind", "Lease")
	if err := os.WriteFile(filepath.Join(dir, "soup.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: soup}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDev follows a session: the cluster and mode, runs, tests of a hook that changes, in dry run and with a control plane of its own.
func TestDev(t *testing.T) {
	c := testenv.Shared(t)
	dir := devHooks(t, c)
	hook := filepath.Join(dir, "maps.sh")
	text, err := os.ReadFile(hook)
	if err != nil {
		t.Fatal(err)
	}
	operation := `printf '{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", ` +
		`"metadata": {"generateName": "dev-test-", "namespace": "default"}}}' >"$KUBERNETES_PATCH_PATH"` + "\n"
	testenv.Script(t, dir, "maps.sh", string(text)+operation)
	s := develop(t, "--kube-config", c.Kubeconfig, dir)
	s.out.Until(t, "maps.sh 1-1 ended: succeeded", 1)
	first, _, _ := strings.Cut(s.out.String(), "\n")
	if !strings.HasPrefix(first, "cluster https://") || !strings.Contains(first,
		"dry run: the operator changes no object and registers no webhook. WARNING: dry run does not stop kubectl in hooks") {
		t.Errorf("the first line is %q", first)
	}
	if !strings.Contains(s.out.String(), "; operations: Create ConfigMap default/") {
		t.Errorf("the operation is not printed:\n%s", s.out.String())
	}
	testenv.Script(t, dir, "maps.sh", "#!/bin/sh\n# changed\n"+string(text))
	s.out.Until(t, "the hooks are reloaded", 1)
	s.out.Until(t, "tests: 5 cases, 0 failed", 2) // at the start, and now
	testenv.Script(t, dir, "maps.sh", "#!/bin/sh\nif\n")
	s.out.Until(t, "maps.sh:2:1: error: ", 1)
	s.out.Until(t, "the hooks are not reloaded, the previous ones stay active", 1)
	if strings.Contains(s.out.String(), "Reload rejected") {
		t.Errorf("a rejected reload is logged, too:\n%s", s.out.String())
	}
	testenv.Script(t, dir, "maps.sh", string(text))
	s.out.Until(t, "the hooks are reloaded", 2)
	if made := c.Kubectl(t, "-n", "default", "get", "configmap", "-o", "name") +
		c.Kubectl(t, "get", "validatingwebhookconfigurations", "-o", "name"); strings.Contains(made, "dev-") {
		t.Errorf("a dry run has created %s", made)
	}
	s.end(t)

	own := develop(t, "--testcluster", filepath.Join(test.Root(), "bin", "testcluster"), dir)
	own.out.Until(t, "ConfigMap default/soup exists", 1)
	own.end(t)

	inMemory := develop(t, "--testcluster", "memory", dir)
	inMemory.out.Until(t, "ConfigMap default/soup exists", 1)
	lines := strings.Split(inMemory.out.String(), "\n")
	if !strings.HasPrefix(lines[0], "an API server in memory, not Kubernetes: no admission, defaults, controllers or permissions") ||
		!strings.HasPrefix(lines[1], "no admission and conversion requests for "+filepath.Join(dir, "check.sh")+": ") {
		t.Errorf("it begins with %q", lines)
	}
	if files, err := os.ReadDir(filepath.Dir(inMemory.kubeconfig(t))); err != nil || len(files) != 1 {
		t.Errorf("beside its kubeconfig are %v, %v", files, err)
	}
	inMemory.end(t)

	// A directory with errors is not started.
	testenv.Script(t, dir, "maps.sh", "#!/bin/sh\nif\n")
	if out, status := try(t, c.Kubeconfig, "dev", dir); status != 1 || !strings.Contains(out, "maps.sh:2:1: error: ") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// TestDevLeavesNothing ends sessions at random moments.
func TestDevLeavesNothing(t *testing.T) {
	if !test.Long() {
		t.Skip("TestDev ends sessions, too: run 'make long'")
	}
	c := testenv.Shared(t)
	dir := devHooks(t, c)
	for i := range 20 {
		args := [][]string{{"--kube-config", c.Kubeconfig, "--apply"}, {"--testcluster", filepath.Join(test.Root(), "bin", "testcluster")},
			{"--kube-config", c.Kubeconfig}}[i%3]
		after := time.Duration(rand.Int64N(int64(4 * time.Second)))
		s := develop(t, append(args, dir)...)
		s.out.Until(t, "cluster ", 1)
		<-time.After(after) // the moment is what is tested
		s.end(t)
		if left := c.Kubectl(t, "get", "validatingwebhookconfigurations", "-o", "name"); strings.Contains(left, "shell-operator-dev-") {
			t.Errorf("after %s, %q: it left %s", after, args, left)
		}
	}
}

// kubeconfig is the one that a session prints.
func (s *session) kubeconfig(t *testing.T) string {
	t.Helper()
	s.out.Until(t, "export KUBECONFIG=", 1)
	_, path, _ := strings.Cut(s.out.String(), "export KUBECONFIG=")
	path, _, _ = strings.Cut(path, "\n")
	return path
}

func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs an operator, which -short leaves out")
	}
}

// TestDevInMemory follows what init --reconcile writes, and prints, on an API server in memory, with kubectl and a second operator as its
// clients: a set, a condition, a finalizer and a Lease.
func TestDevInMemory(t *testing.T) {
	notShort(t)
	dir := t.TempDir()
	out := command(t, "", "init", filepath.Join(dir, "hooks", "widgets.sh"), "--reconcile", "--kind", "example.com/v1/Widget")
	_, commands, _ := strings.Cut(out, "\nthen: shell-operator dev ")
	printed, commands, _ := strings.Cut(commands, "\n")
	s := develop(t, strings.Fields(printed)...)
	path := s.kubeconfig(t)
	c := &testenv.Cluster{Kubeconfig: path}
	_, commands, _ = strings.Cut(commands, ":\n")
	name := ""
	for line := range strings.Lines(commands) {
		args, ofKubectl := strings.CutPrefix(strings.TrimSpace(line), "kubectl ")
		if !ofKubectl {
			t.Fatalf("it prints\n%s", out)
		}
		said := strings.Fields(c.Kubectl(t, append(strings.Fields(args), "-o", "name")...))
		name = said[len(said)-1] // behind a warning: dev has created the object before
	}
	name = strings.TrimPrefix(name, "widget.example.com/")
	c.Kubectl(t, "wait", "--for=condition=Ready", "widget/"+name, "--timeout=60s")
	if got := c.Kubectl(t, "get", "widget", name, "-o", "jsonpath={.metadata.finalizers[*]}"); got != "example.com/widgets" {
		t.Errorf("the finalizers are %q", got)
	}
	c.Kubectl(t, "delete", "configmap", name)
	c.Kubectl(t, "wait", "--for=create", "configmap/"+name, "--timeout=60s")

	other := t.TempDir()
	testenv.Script(t, other, "hello.sh", "#!/bin/sh\necho '{configVersion: v1, onStartup: 1}'\n")
	o := testenv.Start(t, testenv.OperatorOptions{HooksDir: other, Kubeconfig: path,
		Args: []string{"--leader-election", "--namespace=default"}})
	o.UntilLog("Hook executed successfully")
	if holder := c.Kubectl(t, "get", "lease", "shell-operator", "-o", "jsonpath={.spec.holderIdentity}"); holder == "" {
		t.Error("the Lease has no holder")
	}
	o.Signal(syscall.SIGTERM)
	o.Wait()

	c.Kubectl(t, "delete", "widget", name, "--timeout=60s") // it waits for the finalizer
	_ = s.cmd.Process.Signal(syscall.SIGHUP)                // its terminal is closed
	s.end(t)
}

// TestFirstTwoCommands: with nothing but the program, init and dev lead from an empty directory to a hook that reacts to a change.
func TestFirstTwoCommands(t *testing.T) {
	notShort(t)
	begin := time.Now()
	dir := filepath.Join(t.TempDir(), "hooks")
	command(t, "", "init", filepath.Join(dir, "pods.sh"))
	s := develop(t, "--testcluster", "memory", dir)
	s.out.Until(t, "pods.sh 1-1 ended: succeeded", 1)
	c := &testenv.Cluster{Kubeconfig: s.kubeconfig(t)}
	c.KubectlInput(t, "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: nginx}]}}",
		"create", "-f", "-")
	s.out.Until(t, "Pod default/web was added", 1)
	took := time.Since(begin)
	s.end(t)
	used := s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	t.Logf("a hook has reacted after %s; dev and its children have used %s of CPU", took.Round(time.Millisecond), used)
	if used > 5*time.Second { // not the time, which depends on what else runs
		t.Errorf("dev and its children have used %s of CPU", used)
	}
}
