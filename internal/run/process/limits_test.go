package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLimitsInWords(t *testing.T) {
	for want, l := range map[string]Limits{
		"": {Output: 1},
		"memory 256Mi, cpuTime 1m0s, files 1Gi, openFiles 256": {
			Memory: 256 << 20, CPUTime: time.Minute, Files: 1 << 30, OpenFiles: 256, Output: 5},
		"memory 1500, files 3Ki": {Memory: 1500, Files: 3 << 10},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExceededLimits(t *testing.T) {
	all := Limits{CPUTime: 3 * time.Second, Files: 1 << 20}
	for _, c := range []struct {
		limits Limits
		signal syscall.Signal
		status int
		used   time.Duration
		want   string
	}{
		{limits: all, signal: syscall.SIGXCPU, want: "limits.cpuTime of its tenant, 3s"},
		{limits: all, status: 128 + int(syscall.SIGXCPU), want: "limits.cpuTime of its tenant, 3s"},
		{limits: all, signal: syscall.SIGXFSZ, want: "limits.files of its tenant, 1Mi"},
		{limits: all, status: 128 + int(syscall.SIGXFSZ), want: "limits.files of its tenant, 1Mi"},
		{limits: all, signal: syscall.SIGKILL, used: 8 * time.Second, want: "limits.cpuTime of its tenant, 3s"},
		{limits: all, signal: syscall.SIGKILL, used: 2 * time.Second},
		{limits: all, status: 1},
		{limits: all, status: 255},
		{limits: Limits{Memory: 1 << 20}, signal: syscall.SIGXCPU},
		{signal: syscall.SIGXFSZ},
	} {
		got := c.limits.exceeded(c.signal, c.status, c.used)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v %v %d: %q, want %q", c.limits, c.signal, c.status, got, c.want)
		}
	}
}

// underLimits runs a script with limits.
func underLimits(t *testing.T, script string, l Limits) (stdout []string, dropped int, err error) {
	t.Helper()
	if !LimitsProcesses {
		t.Skipf("no limits on %s", runtime.GOOS)
	}
	path := filepath.Join(t.TempDir(), "hook.sh")
	// The limits are set directly after the start.
	held := ""
	for flag, set := range map[string]bool{"d": l.Memory > 0, "t": l.CPUTime > 0, "f": l.Files > 0, "n": l.OpenFiles > 0} {
		if set {
			held += fmt.Sprintf("unlimited=%s; until [[ $(ulimit -%s) != $unlimited ]]; do :; done\n", inherited(t, flag), flag)
		}
	}
	if err := os.WriteFile(path, []byte("#!/usr/bin/env bash\nset -e\n"+held+script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{}).Execute(t.Context(), Invocation{
		Hook: "hook.sh", Path: path, Dir: filepath.Dir(path), Env: []string{"PATH=" + os.Getenv("PATH")}, Limits: l,
		Stdout: func(line []byte) { stdout = append(stdout, string(line)) }, Stderr: func([]byte) {}, Dropped: func() { dropped++ },
	})
	return stdout, dropped, err
}

// inherited is the limit that processes have of which none was set.
func inherited(t *testing.T, flag string) string {
	t.Helper()
	text, err := exec.Command("bash", "-c", "ulimit -"+flag).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Programs that a hook starts have its limits, too.
func TestLimitsHold(t *testing.T) {
	stdout, _, err := underLimits(t, "bash -c 'ulimit -d; ulimit -t; ulimit -Ht; ulimit -f; ulimit -n; ulimit -c'",
		Limits{Memory: 64 << 20, CPUTime: 7 * time.Second, Files: 2 << 20, OpenFiles: 33})
	if got, want := strings.Join(stdout, " "), "65536 7 12 2048 33 0"; err != nil || got != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}

func TestTooMuchCPUTime(t *testing.T) {
	for _, script := range []string{"while :; do :; done", "bash -c 'while :; do :; done'"} {
		_, _, err := underLimits(t, script, Limits{CPUTime: time.Second})
		if err == nil || !strings.Contains(err.Error(), "exceeded limits.cpuTime of its tenant, 1s") {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestTooLargeFile(t *testing.T) {
	for _, script := range []string{"truncate -s 10G big", "head -c 2000000 /dev/zero >big"} {
		_, _, err := underLimits(t, script, Limits{Files: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "exceeded limits.files of its tenant, 1Mi") {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestTooMuchMemory(t *testing.T) {
	_, _, err := underLimits(t, "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}", Limits{Memory: 64 << 20})
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v, want a failure", err)
	}
}

func TestTooManyOpenFiles(t *testing.T) {
	_, _, err := underLimits(t, "for n in {10..99}; do eval \"exec $n</dev/null\"; done", Limits{OpenFiles: 20})
	if err == nil {
		t.Fatal("the run succeeded")
	}
}

// Lines beyond the limit are read and dropped, so that the hook does not block; the next run has its own allowance.
func TestTooMuchOutput(t *testing.T) {
	for script, want := range map[string]string{
		"for n in {1..1000}; do echo $n; done; echo last":        "1 2 3 4 5 6 7 8 9 10 11 12",
		"echo first; head -c 3000000 /dev/zero; echo; echo last": "first",
		"echo 123456789; echo 123456789 >&2; echo 1234567":       "123456789 1234567",
	} {
		stdout, dropped, err := underLimits(t, script, Limits{Output: 28})
		if got := strings.Join(stdout, " "); got != want || err != nil || (dropped != 1) != (want == "123456789 1234567") {
			t.Errorf("%s: %q %d %v", script, got, dropped, err)
		}
	}
}

// A process that was forked before the limits are set has them, too.
func TestLimitsOfEarlyForks(t *testing.T) {
	if !LimitsProcesses {
		t.Skipf("no limits on %s", runtime.GOOS)
	}
	path := filepath.Join(t.TempDir(), "hook.sh")
	const script = "#!/usr/bin/env bash\nbash -c 'echo forked >&2; read -r; ulimit -n' <&2 &\nwait $!\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	conversation := os.NewFile(uintptr(ours), "")
	defer conversation.Close()
	cmd.Stdout, cmd.Stderr = os.NewFile(uintptr(theirs), ""), os.NewFile(uintptr(theirs), "")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(conversation)
	if line, err := lines.ReadString('\n'); line != "forked\n" {
		t.Fatal(line, err)
	}
	if err := (Limits{OpenFiles: 33}).hold(cmd.Process.Pid, cpuGrace); err != nil {
		t.Fatal(err)
	}
	if _, err := conversation.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); line != "33\n" {
		t.Error(line, err)
	}
	_ = cmd.Wait()
}

// startLimited starts a worker with limits.
func startLimited(t *testing.T, script string, l Limits) (*Resident, func(vars ...string) ([]string, error)) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil || !LimitsProcesses {
		t.Skip("needs bash and limits")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "hook.sh")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	in := Invocation{Hook: "hook.sh", Path: path, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Limits: l,
		Stdout: func([]byte) {}, Stderr: func([]byte) {}}
	w, err := New(Options{TermDelay: time.Second}).StartResident(ResidentOptions{
		Invocation: in, ReadyTimeout: 3 * time.Minute, Ready: func() { close(ready) }, Ended: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); w.Run() }()
	t.Cleanup(func() { w.Leave(); <-over })
	<-ready
	return w, func(vars ...string) (lines []string, err error) {
		run := in
		run.Vars = vars
		run.Stdout = func(line []byte) { lines = append(lines, string(line)) }
		run.Worker = &Worker{Run: "1-1", Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err")}
		_, err = w.Serve(t.Context(), run)
		return lines, err
	}
}

// unforked is a worker that serves runs itself. A run burns as many hundredths of a second of CPU time as BURN demands.
const unforked = `#!/usr/bin/env bash
burn() { local t=0; while ((t < $1)); do read -r -a s </proc/self/stat; ((s[13] + s[14] >= start + $1)) && break; done; }
echo ready >&3
while :; do
  vars=()
  while IFS= read -r -d '' v <&3; do [[ $v ]] || break; vars+=("$v"); done
  ((${#vars[@]})) || exit 0
  export "${vars[@]}"
  read -r -a s </proc/self/stat; start=$((s[13] + s[14]))
  burn "$BURN"
  echo "limit $(ulimit -St) $HOOK_CPU_SECONDS"
  echo "${vars[0]#HOOK_RUN=} 0" >&3
done
`

// CPU time counts from the start of each run: two runs may together use more than the limit, one may not.
func TestCPUTimeOfAWorker(t *testing.T) {
	_, serve := startLimited(t, unforked, Limits{CPUTime: time.Second})
	for n := range 2 {
		lines, err := serve("BURN=60")
		var limit, own int
		if len(lines) == 1 {
			_, _ = fmt.Sscanf(lines[0], "limit %d %d", &limit, &own)
		}
		if err != nil || limit < 1+n || own != 1 { // both have used more than a second
			t.Fatalf("%v %q", err, lines)
		}
	}
	if _, err := serve("BURN=6000"); err == nil || !strings.Contains(err.Error(), "exceeded limits.cpuTime of its tenant, 1s") {
		t.Errorf("%v", err)
	}
}
