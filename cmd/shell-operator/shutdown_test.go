package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownProgram is this one, as users call it.
func ownProgram(t *testing.T) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shell-operator")
	if err := os.Symlink(own, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is the real program, without a cluster.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
	log   bytes.Buffer
}

// launch starts the program with a hook and a kubeconfig of an API server that does not exist.
func launch(t *testing.T, hook, user string, args ...string) *process {
	t.Helper()
	dir := t.TempDir()
	hooks, config := filepath.Join(dir, "hooks"), filepath.Join(dir, "kubeconfig")
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {" +
		user + "}}]\n"
	err := errors.Join(os.Mkdir(hooks, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.WriteFile(config, []byte(kubeconfig), 0o600),
		os.WriteFile(filepath.Join(hooks, "hook"), []byte("#!/bin/sh\n"+hook), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(ownProgram(t), append([]string{
		"start", "--hooks-dir", hooks, "--kube-config", config, "--shutdown-timeout", "1s", "--log-type", "json", "--listen-address", "127.0.0.1",
		"--listen-port", "0",
		"--tmp-dir", filepath.Join(dir, "tmp"), "--debug-unix-socket", filepath.Join(dir, "debug.socket"),
	}, args...)...)}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"))
	out, err := p.cmd.StdoutPipe()
	p.cmd.Stderr = p.cmd.Stdout
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.lines = out, bufio.NewScanner(out)
	hung := time.AfterFunc(3*time.Minute, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }) // shows what it waits for
	t.Cleanup(func() { hung.Stop(); _ = p.cmd.Process.Kill() })
	return p
}

// until reads the log up to a record.
func (p *process) until(text string) {
	p.t.Helper()
	for p.lines.Scan() {
		fmt.Fprintln(&p.log, p.lines.Text())
		if strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	p.t.Fatalf("no record %q in\n%s", text, p.log.String())
}

// ends reads what is left of the log, and checks the status and the time.
func (p *process) ends(status int, within time.Duration) string {
	p.t.Helper()
	began := time.Now()
	for p.lines.Scan() {
		fmt.Fprintln(&p.log, p.lines.Text())
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != status || time.Since(began) > within {
		p.t.Errorf("status %d after %s, want %d within %s\n%s", got, time.Since(began), status, within, p.log.String())
	}
	return p.log.String()
}

const (
	watches = "if [ \"$1\" = --config ]; then echo '{configVersion: v1, kubernetes: [{kind: Pod}]}'; fi\n"
	hangs   = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['-c', 'echo asks for credentials >&2; " +
		"exec 2>&-; while kill -0 $PPID; do sleep 1; done'], interactiveMode: Never}" // it ends soon after the operator
	// longest is many times the shutdown timeout and what the watchdog adds, for a machine that is busy, and less than launch allows.
	longest = 2 * time.Minute
)

// A credential plugin that hangs does not keep the operator from ending. The log has what it writes.
func TestShutdownWithHangingPlugin(t *testing.T) {
	t.Parallel()
	p := launch(t, watches, hangs)
	p.until(`"level":"warn","msg":"asks for credentials"`)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	log := p.ends(1, longest)
	if want := `"msg":"The shutdown timeout is over and something still blocks, the operator exits"`; !strings.Contains(log, want) {
		t.Errorf("no %s in\n%s", want, log)
	}
}

// A log that no client reads does not keep the operator from ending.
func TestShutdownWithUnreadLog(t *testing.T) {
	t.Parallel()
	p := launch(t, "if [ \"$1\" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi\nyes | head -c 10000000\n", "token: x")
	p.until("Execute hook")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.Signal(0))
	ended := make(chan struct{})
	go func() {
		_, _ = p.cmd.Process.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(longest):
		t.Error("it does not end")
	}
}

// A file that blocks keeps neither the first nor the second signal from ending the operator.
func TestShutdownWithBlockingFile(t *testing.T) {
	t.Parallel()
	kmsg, err := os.OpenFile("/proc/kmsg", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no file that blocks: %v", err)
	}
	kmsg.Close()
	p := launch(t, watches, "token: x", "--watch-hooks=false")
	p.until("Loaded config")
	hooks := p.cmd.Args[3]
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(0, longest)
	if err := os.Symlink("/proc/kmsg", filepath.Join(hooks, "kmsg")); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(p.cmd.Path, append(p.cmd.Args[1:], "--watch-hooks=true")...)
	out, err := again.StdoutPipe()
	if err == nil {
		err = again.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	q := &process{t: t, cmd: again, lines: bufio.NewScanner(out)}
	q.until("Initialize hooks manager")
	if err := again.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(longest, func() { _ = again.Process.Kill() })
	for q.lines.Scan() {
	}
	_ = again.Wait()
	if !hung.Stop() {
		t.Error("it had to be killed")
	}
}

// A temp directory that was not set is created, and removed at the end: also when the terminal is closed, or nothing reads the output.
func TestOwnTempDirectory(t *testing.T) {
	t.Parallel()
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP) // below nohup a process inherits that it ignores SIGHUP: not from one that handles it
	t.Cleanup(func() { signal.Stop(hangUps) })
	for name, end := range map[string]func(*process) error{
		"SIGTERM": func(p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP": func(p *process) error {
			_ = p.cmd.Process.Signal(syscall.SIGHUP) // as a shell, which passes it to its jobs
			return p.cmd.Process.Signal(syscall.SIGHUP)
		},
		"no reader": func(p *process) error { return p.out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, watches, "token: x", "--tmp-dir", "")
			p.until("Enable kubernetes binding for hook")
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			p.ends(0, longest)
			tmp := strings.TrimPrefix(p.cmd.Env[len(p.cmd.Env)-1], "TMPDIR=")
			if entries, err := os.ReadDir(tmp); err != nil || len(entries) > 0 {
				t.Errorf("left in the temp directory: %v, %v", entries, err)
			}
		})
	}
}
