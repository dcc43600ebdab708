package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// libraryHook is a worker with a library, of testdata; each run executes the variable COMMAND.
func libraryHook(t *testing.T, name, preparation, options string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("PREPARATION", preparation, "OPTIONS", options).Replace(string(text))
}

// library returns a bench whose runs have contexts.
func libraryBench(t *testing.T, script string) (*bench, func(command string, vars ...string) outcome) {
	t.Helper()
	for _, program := range []string{"python3", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs " + program)
		}
	}
	b := newBench(t, script, nil)
	sdk, err := filepath.Abs("../../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	contexts := filepath.Join(b.dir, "contexts.json")
	if err := os.WriteFile(contexts, []byte(`[{"binding":"onStartup"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	return b, func(command string, vars ...string) outcome {
		return b.runWith(command, func(in *process.Invocation) {
			in.Env = append(in.Env, "SDK="+sdk+"/python", "SHELL_LIB="+sdk+"/shell/shell_lib.sh", "PYTHONDONTWRITEBYTECODE=1")
			in.Vars = append(append(in.Vars, "BINDING_CONTEXT_PATH="+contexts), vars...)
		})
	}
}

// libraryCase is a run: what it prints, and its error.
type libraryCase struct{ name, command, stdout, err string }

func checkLibrary(t *testing.T, b *bench, run func(string, ...string) outcome, cases []libraryCase) {
	t.Helper()
	for i, test := range cases {
		got := run(test.command)
		text := ""
		if got.err != nil {
			text = got.err.Error()
		}
		if strings.Join(got.stdout, "|") != test.stdout || (test.err == "") != (text == "") || !strings.Contains(text, test.err) ||
			got.result.Served.Worker != 1 || got.result.Served.Run != i+1 {
			t.Errorf("%s: %s\n%s", test.name, got, b.log)
		}
	}
}

// Section 4: each run is a fork that begins with the preparation and ends like a program.
func TestPythonLibrary(t *testing.T) {
	t.Parallel()
	b, run := libraryBench(t, libraryHook(t, "hook.py", `print("prepared")`, ""))
	checkLibrary(t, b, run, []libraryCase{
		{"state", `count += 1; print(count, os.environ["PREPARED"])`, "1 yes", ""},
		{"state of the run before", `count += 1; print(count)`, "1", ""},
		{"a run that changes all", `os.chdir("/"); os.umask(0o077); os.environ["LEFT"] = "x"; signal.signal(signal.SIGTERM, signal.SIG_IGN); ` +
			`left = open("left", "w"); atexit.register(print, "atexit"); os.chdir("/")`, "atexit", ""},
		{"none of it is there",
			`print(os.getcwd() == "/", oct(os.umask(0)), os.environ.get("LEFT"), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, ` +
				`"left" in globals(), any("left" in os.readlink(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd") if ` +
				`os.path.exists(f"/proc/self/fd/{f}")))`, "False 0o22 None True False False", ""},
		{"the directory of the preparation", `print(os.path.isdir(kept.name)); kept = None`, "True", ""},
		{"is still there", `print(os.path.isdir(kept.name))`, "True", ""},
		{"a directory of the run", `own = tempfile.TemporaryDirectory(); print(os.path.isdir(own.name)); open("own", "w").write(own.name)`,
			"True", ""},
		{"is removed", `print(os.path.isdir(open("own").read())); os.remove("own")`, "False", ""},
		{"an exception", `print("a"); raise ValueError("no")`, "a", "ValueError: no"},
		{"an exit", `sys.exit(7)`, "", "exit status 7"},
		{"an exit with a text", `sys.exit("sorry")`, "", "FAILED: sorry"},
		{"a signal", `os.kill(os.getpid(), 9)`, "", "exit status 137"},
		{"a thread", `threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start(); print("main")`, "main|thread", ""},
		{"no line end", `print("a", end="")`, "a", ""},
		{"another program", `sys.stdout.flush(); os.execv("/bin/echo", ["echo", "program"])`, "program", ""},
		{"a program with the library",
			`print(os.environ.get("HOOK_WORKER_FD")); sys.stdout.flush(); subprocess.run([sys.executable, __file__, "--config"], check=True)`,
			`None|prepared|{"configVersion": "v1", "onStartup": 1, "settings": {"worker": true}}|not reached in a worker|the worker ends`, ""},
		{"the socket", `print(os.path.exists("/proc/self/fd/3") and os.readlink("/proc/self/fd/3").startswith("socket:"))`, "False", ""},
	})
	if got := run(`print(os.environ.get("TRACESTATE"))`, "TRACESTATE=a"); strings.Join(got.stdout, "") != "a" {
		t.Error(got)
	}
	if got := run(`print(os.environ.get("TRACESTATE"), "COMMAND" in os.environ)`); strings.Join(got.stdout, "") != "None True" {
		t.Error(got)
	}
	b.pool.Close()
	if log := b.log.String(); strings.Count(log, "msg=prepared") != 1 || strings.Count(log, `msg="the worker ends"`) != 1 ||
		strings.Contains(log, "not reached") {
		t.Error(log)
	}
}

// Rule 7: a worker whose operator is killed after it has sent a run ends with that run, although nothing reads the named pipes.
func TestLibrariesWithoutTheirOperator(t *testing.T) {
	for name, script := range map[string]string{
		"python": libraryHook(t, "hook.py", "", ""),
		"bash":   libraryHook(t, "hook.sh", "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := libraryBench(t, script)
			sdk, _ := filepath.Abs("../../../sdk")
			syscall.ForkLock.RLock() // no child inherits the pair
			pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err == nil {
				syscall.CloseOnExec(pair[0])
				syscall.CloseOnExec(pair[1])
			}
			syscall.ForkLock.RUnlock()
			if err != nil {
				t.Fatal(err)
			}
			ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
			defer ours.Close()
			cmd := exec.Command(b.path)
			cmd.Dir, cmd.ExtraFiles = b.dir, []*os.File{theirs}
			cmd.Env = append(os.Environ(), "HOOK_WORKER_FD=3", "SDK="+sdk+"/python", "SHELL_LIB="+sdk+"/shell/shell_lib.sh",
				"PYTHONDONTWRITEBYTECODE=1")
			if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
				t.Fatal(err)
			}
			var line [16]byte
			if n, err := ours.Read(line[:]); err != nil || string(line[:n]) != "ready\n" {
				t.Errorf("%q, error %v", line[:n], err)
			}
			out, errs := filepath.Join(b.dir, "out"), filepath.Join(b.dir, "err")
			if err := errors.Join(syscall.Mkfifo(out, 0o600), syscall.Mkfifo(errs, 0o600)); err != nil {
				t.Fatal(err)
			}
			_, err = ours.WriteString(strings.Join([]string{"HOOK_RUN=1-1", "BINDING_CONTEXT_PATH=" + filepath.Join(b.dir, "contexts.json"),
				"COMMAND=" + map[string]string{"python": `open("ran", "w").close()`, "bash": ">ran"}[name], "HOOK_STDOUT=" + out,
				"HOOK_STDERR=" + errs, "", ""}, "\x00"))
			if err := errors.Join(err, ours.Close()); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			err = cmd.Wait()
			if _, missing := os.Stat(filepath.Join(b.dir, "ran")); missing != nil || cmd.ProcessState.String() == "signal: killed" {
				t.Errorf("the worker ended with %v; the run: %v", err, missing)
			}
		})
	}
}

// A run that handles SIGTERM has the time to do so that it has without worker, although the worker itself ends at the signal. Other runs
// and what they have started end immediately.
func TestLibrariesAndSignals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, handles, ignores string }{
		"python": {libraryHook(t, "hook.py", "", ""),
			`signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), print("unlocked"), sys.exit(1))); print("runs", flush=True); time.sleep(60)`,
			`print("runs", flush=True); time.sleep(60)`},
		"bash": {libraryHook(t, "hook.sh", "", ""),
			`trap 'sleep 0.3; echo unlocked; exit 1' TERM; echo runs; while :; do sleep 0.1; done`, `sleep 60 & echo runs; wait`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, run := libraryBench(t, test.script)
			for command, want := range map[string]bool{test.handles: true, test.ignores: false} {
				ctx, stop := context.WithCancelCause(t.Context())
				b.ctx, b.printed = ctx, func(string) { stop(&process.StopError{Hook: "hook"}) } // as at a time limit
				began := time.Now()
				got := run(command)
				if !errors.As(got.err, new(*process.StopError)) || strings.Contains(fmt.Sprint(got.stdout), "unlocked") != want ||
					time.Since(began) > 30*time.Second {
					t.Errorf("%s: %s after %s", command, got, time.Since(began))
				}
			}
		})
	}
}

func TestPythonLibraryWithoutFork(t *testing.T) {
	t.Parallel()
	b, run := libraryBench(t, libraryHook(t, "hook.py", "", "fork=False"))
	checkLibrary(t, b, run, []libraryCase{
		{"state", `count += 1; print(count)`, "1", ""},
		{"state of the run before", `count += 1; print(count); os.environ["LEFT"] = "x"`, "2", ""},
		{"the environment is replaced", `print(os.environ.get("LEFT"), os.environ["PREPARED"])`, "None yes", ""},
		{"an exception", `raise ValueError("no")`, "", "ValueError: no"},
		{"an exit", `print("a", end=""); sys.exit(3)`, "a", "exit status 3"},
		{"the next run", `print(count)`, "2", ""},
	})
}

func TestPythonLibraryAndThreads(t *testing.T) {
	t.Parallel()
	_, run := libraryBench(t,
		libraryHook(t, "hook.py", `threading.Thread(target=time.sleep, args=(3,), name="poller", daemon=True).start()`, ""))
	if got := run("print(1)"); got.err == nil || !strings.Contains(got.err.Error(), "would be missing in it: poller") {
		t.Error(got)
	}
}

func TestShellLibrary(t *testing.T) {
	t.Parallel()
	b, run := libraryBench(t, libraryHook(t, "hook.sh", "echo prepared", ""))
	checkLibrary(t, b, run, []libraryCase{
		{"state", `count=$((count + 1)); echo "$count $PREPARED"`, "1 yes", ""},
		{"state of the run before", `count=$((count + 1)); echo "$count"`, "1", ""},
		{"a run that changes all", `cd /; umask 777; export LEFT=x; set +e; trap 'echo a trap' EXIT; exec 7</dev/null`, "a trap", ""},
		{"none of it is there", `echo "$PWD" "$(umask)" "${LEFT:-}" "${-//[!e]/}"; ls /proc/$BASHPID/fd | grep -c 7 || true`,
			b.dir + " 0022  e|0", ""},
		{"a failure", `echo a; false; echo b`, "a", "exit status 1"},
		{"an exit", `exit 7`, "", "printed nothing: exit status 7"},
		{"a signal", `kill -9 $BASHPID`, "", "exit status 137"},
		{"a filter of the output", `exec > >(sed s/a/b/); echo a`, "b", ""},
		{"a program with the library", `echo "${HOOK_WORKER_FD:-none}"; "$0" --config`,
			`none|prepared|{"configVersion":"v1","onStartup":1,"settings":{"worker":true}}|the worker ends`, ""},
		{"the contexts", `context::get binding`, "onStartup", ""},
	})
	if got := run(`false`); strings.Count(strings.Join(got.stderr, "\n"), "A command failed") != 1 {
		t.Error(got)
	}
	if got := run(`echo "${TRACESTATE-none}"`, "TRACESTATE=a\nb"); strings.Join(got.stdout, "|") != "a|b" {
		t.Error(got)
	}
	if got := run(`echo "${TRACESTATE-none}"`); strings.Join(got.stdout, "") != "none" {
		t.Error(got)
	}
	b.pool.Close()
	if log := b.log.String(); strings.Count(log, "msg=prepared") != 1 || strings.Count(log, `msg="the worker ends"`) != 1 {
		t.Error(log)
	}
}
