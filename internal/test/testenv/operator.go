package testenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Binary returns the path of the operator's program, built with the race detector if the test is. It is the one that
// TESTOPERATOR names, built once for all test processes, or built by this process.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TESTOPERATOR"); path != "" {
		return path, nil
	}
	path := filepath.Join(filepath.Dir(test.Trimmed()), "test", "shell-operator")
	args := []string{"build", "-ldflags=-s -w"} // a third of the time of linking is for debuggers
	if raceDetector {
		path += "-race"
		args = append(args, "-race")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	// Test processes build concurrently: each to a file of its own, renamed atomically.
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(own)
	cmd := exec.Command("go", append(args, "-o", own, "./cmd/shell-operator")...)
	cmd.Dir = test.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the operator: %w\n%s", err, out)
	}
	// Beside the operator, where it searches the trimmed kubectl. Another process may have made the link.
	if err := os.Symlink(test.Trimmed(),
		filepath.Join(filepath.Dir(path), "kubectl-trimmed")); err != nil &&
		!errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, os.Rename(own, path)
})

// Released returns the path of the program as releases have it, for tests of its memory: the race detector needs several times as much. It
// is the one that TESTRELEASED names, or built once by this process.
func Released(t testing.TB) string {
	t.Helper()
	path, err := released()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var released = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TESTRELEASED"); path != "" {
		return path, nil
	}
	path := filepath.Join(test.Root(), "bin", "test", "shell-operator-released")
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(own)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", own, "./cmd/shell-operator")
	cmd.Dir, cmd.Env = test.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the operator: %w\n%s", err, out)
	}
	return path, os.Rename(own, path)
})

// OperatorOptions configure an operator.
type OperatorOptions struct {
	HooksDir string
	// Kubeconfig is the cluster to work on.
	Kubeconfig string
	Args       []string
	// Env is added to the environment of the test.
	Env []string
	// Binary is another program than the one of the working tree.
	Binary string
	// Dir is the working directory.
	Dir string
	// TmpDir is for the operator's temporary files; empty means one of the test's.
	TmpDir string
	// Ignore leaves log records out, for operators that print more than a test can hold.
	Ignore func(line string) bool
	// Status is the exit status that the test expects; a different one fails it.
	Status int
}

// Operator is a running operator.
type Operator struct {
	t   testing.TB
	cmd *exec.Cmd
	// Started is when the process was started.
	Started time.Time
	status  int
	// Socket is the path of the socket of its debug API.
	Socket string
	ignore func(line string) bool
	// Errors is what was printed to stderr, complete when the process has ended.
	Errors bytes.Buffer

	mu sync.Mutex
	// records are all so far; more is closed and replaced whenever there are more, or none any more.
	records []Record
	more    chan struct{}
	ended   bool

	// read is closed when everything that the operator printed has been read.
	read chan struct{}
	wait sync.Once
}

// Record is one log record.
type Record struct {
	Fields map[string]string
	// At is when the test read it.
	At time.Time
	// Text is the record as it was printed.
	Text string
}

// Start starts an operator. It is stopped at the end of the test, and must then end with Status.
func Start(t testing.TB, o OperatorOptions) *Operator {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	if o.TmpDir == "" {
		o.TmpDir = filepath.Join(t.TempDir(), "tmp")
	}
	// A folder with a short name: paths of sockets are limited.
	sockets, err := os.MkdirTemp("", "operator-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "debug.socket")
	args := append([]string{
		"start", "--debug-unix-socket", socket, "--hooks-dir", o.HooksDir, "--tmp-dir", o.TmpDir, "--log-type", "json",
		"--kube-config", o.Kubeconfig,
		"--listen-address", "127.0.0.1", "--listen-port", "0",
		"--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0",
		"--conversion-webhook-listen-address", "127.0.0.1", "--conversion-webhook-listen-port", "0",
		"--http-listen-port", "0",
	}, o.Args...)
	op := &Operator{t: t, cmd: exec.Command(o.Binary, args...), more: make(chan struct{}), read: make(chan struct{}), status: o.Status,
		Socket: socket, ignore: o.Ignore}
	op.cmd.Dir = o.Dir
	op.cmd.Env = append(append(os.Environ(), "PATH="+test.Tools(t)+":"+os.Getenv("PATH")), o.Env...)
	op.cmd.Stderr = &op.Errors
	out, err := op.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	op.Started = time.Now()
	// A test that panics leaves no operator behind.
	op.cmd.SysProcAttr = endWithParent()
	if err := startWithParent(op.cmd); err != nil {
		t.Fatal(err)
	}
	go op.follow(out)
	t.Cleanup(func() {
		op.Signal(syscall.SIGTERM)
		if status := op.Wait(); status != op.status {
			t.Errorf("the operator ended with status %d, not %d\n%s", status, op.status, op.Errors.String())
		}
		if t.Failed() {
			t.Log(op.Log())
		}
	})
	return op
}

func (op *Operator) follow(out io.Reader) {
	defer close(op.read)
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		if err == nil && op.ignore != nil && op.ignore(line) {
			continue
		}
		op.mu.Lock()
		if line != "" {
			op.records = append(op.records, record(line))
		}
		op.ended = err != nil
		close(op.more)
		op.more = make(chan struct{})
		op.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func record(line string) Record {
	r := Record{At: time.Now(), Text: line, Fields: map[string]string{}}
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		r.Fields["msg"] = line
		return r
	}
	for k, v := range fields {
		if s, ok := v.(string); ok {
			r.Fields[k] = s
			continue
		}
		text, _ := json.Marshal(v)
		r.Fields[k] = string(text)
	}
	return r
}

// Records returns the log records so far.
func (op *Operator) Records() []Record {
	op.mu.Lock()
	defer op.mu.Unlock()
	return append([]Record(nil), op.records...)
}

// Log returns the log so far, long lines cut.
func (op *Operator) Log() string {
	var b strings.Builder
	for _, r := range op.Records() {
		fmt.Fprintln(&b, r.Text[:min(len(r.Text), 800)])
	}
	return b.String()
}

// Until waits until done returns true for the records so far. It is called for each new record. The test fails with
// what it was waiting for when the operator ends first or the time limit is exceeded.
func (op *Operator) Until(what string, done func([]Record) bool) {
	op.t.Helper()
	if err := op.TryUntil(test.Patience, done); err != nil {
		op.t.Fatalf("waited for %s: %v", what, err)
	}
}

// TryUntil is Until, with an error instead of a failed test.
func (op *Operator) TryUntil(patience time.Duration, done func([]Record) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		op.mu.Lock()
		records, more, ended := op.records, op.more, op.ended
		op.mu.Unlock()
		if done(records) {
			return nil
		}
		if ended {
			return fmt.Errorf("the operator has ended\n%s", op.Errors.String())
		}
		select {
		case <-more:
		case <-late.C:
			return errors.New("it did not come within " + patience.String())
		}
	}
}

// UntilLog waits for a record that has a message and, if given, fields (name, value, …).
func (op *Operator) UntilLog(message string, fields ...string) Record {
	op.t.Helper()
	return op.UntilCount(1, message, fields...)
}

// UntilCount waits for the n-th record that has a message and fields, and returns it.
func (op *Operator) UntilCount(n int, message string, fields ...string) (found Record) {
	op.t.Helper()
	seen, next := 0, 0
	op.Until(fmt.Sprintf("record %d of %q %q", n, message, fields), func(records []Record) bool {
		for ; next < len(records) && seen < n; next++ {
			if records[next].Has(message, fields...) {
				found = records[next]
				seen++
			}
		}
		return seen >= n
	})
	return found
}

// Count counts the records so far that have a message and fields.
func (op *Operator) Count(message string, fields ...string) (n int) {
	for _, r := range op.Records() {
		if r.Has(message, fields...) {
			n++
		}
	}
	return n
}

// Has reports whether the message begins with this text and the fields have these values.
func (r Record) Has(message string, fields ...string) bool {
	if !strings.HasPrefix(r.Fields["msg"], message) {
		return false
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if r.Fields[fields[i]] != fields[i+1] {
			return false
		}
	}
	return true
}

// Command is a command of the binary that asks the operator.
func (op *Operator) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(Binary(op.t), args...)
	cmd.Env = append(os.Environ(), "DEBUG_UNIX_SOCKET="+op.Socket)
	return cmd
}

// Ask returns the output of a command that asks the operator.
func (op *Operator) Ask(args ...string) string {
	op.t.Helper()
	out, err := op.Command(args...).CombinedOutput()
	if err != nil {
		op.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// Signal sends a signal to the operator, if it still runs.
func (op *Operator) Signal(s os.Signal) { _ = op.cmd.Process.Signal(s) }

// Pid is the operator's process id.
func (op *Operator) Pid() int { return op.cmd.Process.Pid }

// Ended is closed when the operator has ended and its log is complete. A life has no limit, a Wait has.
func (op *Operator) Ended() <-chan struct{} { return op.read }

// Wait waits for the end and returns the exit status, -1 if a signal ended the operator.
func (op *Operator) Wait() int {
	op.t.Helper()
	op.wait.Do(func() {
		late := time.AfterFunc(test.Patience, func() { _ = op.cmd.Process.Signal(syscall.SIGQUIT) })
		defer late.Stop()
		<-op.read // before Wait closes the pipe
		_ = op.cmd.Wait()
	})
	return op.cmd.ProcessState.ExitCode()
}

// Expect sets the exit status that the end of the test checks.
func (op *Operator) Expect(status int) { op.status = status }
