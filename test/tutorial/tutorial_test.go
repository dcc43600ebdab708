// Package tutorial follows pages of docs as a reader would: it types the commands of the page and compares what comes.
//
// Blocks that are marked sh are typed, in order. Blocks without a word are what has to come: from the commands right before
// them, or else from the operator. A comment in front of a block, which readers do not see, says what is different:
//
//	<!-- untested: why -->   it is left out
//	<!-- fails -->           the commands are meant to fail
//	<!-- wait: text -->      the operator has to print this first
package tutorial

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/testenv"
)

// block is a fenced part of the page.
type block struct {
	line           int
	language, text string
	// mark is the comment in front of it, without the signs around it.
	mark string
}

// blocks returns the fenced parts of a page, in order.
func blocks(page string) (all []block) {
	var current *block
	mark, indent := "", ""
	for i, line := range strings.Split(page, "\n") {
		before, language, fence := strings.Cut(line, "```")
		fence = fence && strings.TrimSpace(before) == ""
		switch {
		case fence && current == nil:
			all = append(all, block{line: i + 1, language: language, mark: mark})
			current, mark, indent = &all[len(all)-1], "", before
		case fence:
			current = nil
		case current != nil:
			current.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "<!-- "):
			mark = strings.TrimSuffix(strings.TrimPrefix(line, "<!-- "), " -->")
		}
	}
	return all
}

// stays tells whether a command stays in the foreground of a terminal: the cluster does, and the operator.
var stays = regexp.MustCompile(`^(bin/testcluster|(bin/)?shell-operator) (start|--)`)

// program is a command that stays in the foreground, and all that it has printed.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
	more   chan struct{} // closed and replaced whenever there is more
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.output.Write(b)
}

func (p *program) printed() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String(), p.more
}

// until waits until a line has been printed, in which … stands for anything.
func (p *program) until(line string) error {
	late := time.NewTimer(testenv.Patience)
	defer late.Stop()
	for ended := p.ended; ; {
		text, more := p.printed()
		if contains(text, line) {
			return nil
		}
		if ended == nil {
			return fmt.Errorf("%s has ended", p.cmd)
		}
		select {
		case <-more:
		case <-ended:
			ended = nil // look once more
		case <-late.C:
			return fmt.Errorf("it did not come within %s", testenv.Patience)
		}
	}
}

func contains(text, line string) bool {
	for printed := range strings.Lines(text) {
		rest, ok := printed, true
		for part := range strings.SplitSeq(line, "…") {
			_, rest, ok = strings.Cut(rest, part)
			if !ok {
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

// reader follows a page.
type reader struct {
	t   *testing.T
	env []string
	// cluster and operator are what runs in the first two terminals.
	cluster, operator *program
	// answer is what the last commands printed that did not stay.
	answer string
	// dir is the working directory.
	dir string
}

// start starts a command in a terminal of its own.
func (r *reader) start(command string) *program {
	p := &program{cmd: r.bash("exec " + command), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	return p
}

// stop is Ctrl-C.
func (r *reader) stop(p *program) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
	case <-time.After(testenv.Patience):
		_ = p.cmd.Process.Kill()
		r.t.Errorf("%s does not end", p.cmd)
	}
}

func (r *reader) bash(script string) *exec.Cmd {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

// do types the commands of a block.
func (r *reader) do(b block) {
	commands := strings.TrimRight(b.text, "\n")
	at := strings.LastIndex(commands, "\n") + 1
	last := commands[at:]
	if stays.MatchString(last) {
		commands = commands[:at]
	}
	// Whoever gives commands that end with the operator has stopped the one from before.
	if stays.MatchString(last) && !strings.HasPrefix(last, "bin/testcluster") {
		r.stop(r.operator)
	}
	if strings.HasPrefix(commands, "export ") {
		r.export(commands)
	}
	out, err := r.bash(commands).CombinedOutput()
	if (err != nil) != (b.mark == "fails") {
		r.t.Fatalf("line %d: error %v\n%s%s", b.line, err, b.text, out)
	}
	r.answer = string(out)
	switch {
	case strings.HasPrefix(last, "bin/testcluster"):
		r.answer = ""
		r.cluster = r.start(last)
		if err := r.cluster.until("ready"); err != nil {
			r.t.Fatalf("line %d: %v", b.line, err)
		}
	case stays.MatchString(last):
		r.answer = ""
		r.operator = r.start(last)
	}
}

// sees waits until the operator has printed each of the lines, unless the commands right before them have.
func (r *reader) sees(b block) {
	for line := range strings.Lines(b.text) {
		line = strings.TrimRight(line, "\n")
		if contains(r.answer, line) {
			continue
		}
		if r.operator == nil {
			r.t.Fatalf("line %d: expected %q, but the commands before printed\n%s", b.line, line, r.answer)
		}
		if err := r.operator.until(line); err != nil {
			r.t.Fatalf("line %d: waited for %q: %v\nthe commands before printed\n%s", b.line, line, err, r.answer)
		}
	}
}

// export lets all later commands have the variables of a line.
func (r *reader) export(line string) {
	first, _, _ := strings.Cut(line, "\n")
	out, err := r.bash(first + "\nenv -0").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	r.env = slices.DeleteFunc(strings.Split(string(out), "\x00"), func(kv string) bool { return kv == "" })
}

// TestFirstHook follows the first tutorial in directories of its own, and with pages of the operator on loopback only.
func TestFirstHook(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a control plane of its own")
	}
	testenv.Tools(t)
	testenv.Shared(t) // skips where there is no test cluster
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "tutorial", "first-hook.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "/tmp/first-", t.TempDir()+"/")
	// A folder with a short name: paths of sockets are limited.
	sockets, err := os.MkdirTemp("", "tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	r := &reader{t: t, dir: testenv.Root(), env: append(os.Environ(),
		"SHELL_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT=0", "SHELL_OPERATOR_TMP_DIR="+filepath.Join(t.TempDir(), "tmp"),
		"SHELL_OPERATOR_RETRY_MIN_DELAY=3s", "DEBUG_UNIX_SOCKET="+filepath.Join(sockets, "socket"))}
	defer func() {
		r.stop(r.operator)
		r.stop(r.cluster)
		if t.Failed() && r.operator != nil {
			text, _ := r.operator.printed()
			t.Logf("the last operator printed:\n%s", text)
		}
	}()
	all := blocks(page)
	for i, b := range all {
		switch b.language {
		case "sh":
			if strings.HasPrefix(b.text, "rm -r ") { // the last step comes after Ctrl-C, in both terminals
				r.stop(r.operator)
				r.stop(r.cluster)
			} else if i+1 < len(all) && all[i+1].language == "sh" && r.operator != nil && strings.HasPrefix(b.text, "export ") {
				if err := r.operator.until("Hook executed successfully"); err != nil {
					t.Fatalf("line %d: %v", b.line, err)
				}
			}
			r.do(b)
		case "":
			r.sees(b)
		}
	}
}
