// Package tutorial follows the pages of docs and the READMEs of the examples as a reader would: it types the commands of the
// page and compares what comes. No block of any page may be left over: TestEverySnippet.
//
// Blocks that are marked sh are typed, in order. Blocks without a word are what has to come: from the commands right before them, or else
// from the operator. Whole hooks are written to the hooks directory, manifests are applied. A comment in front of a block, which readers do
// not see, says what is different:
//
//	<!-- fails -->            the commands are meant to fail
//	<!-- wait: text -->       the operator has to print this first
//	<!-- ran: text -->        the operator has to print this in a run, after what it had to print before, and the run has to end well
//	<!-- answer of: text -->  it is what this command answers; of JSON, the keys are compared
//	<!-- ends: program -->    this program has been ended first, with Ctrl-C
//	<!-- part of a hook: X --> put into the hidden file "part" and run on the hidden context.json; the result has X
//	<!-- not run: reason -->  it cannot be run here
//	<!-- replace: X => Y -->  anywhere in the page: Y is what is right here
//	<!-- in a binding -->     it belongs to a binding of a hook
//	<!-- file: path -->       it is the text of this file
//	<!-- in: path -->         this file has these lines
//	<!-- needs: program -->   in a section that is left out on machines without the program
//	<!-- values -->           it is for the chart
//	<!-- values: instead -->  it is for the chart, instead of other values of the page
//
// What readers have before they begin, and what tests check at the end, are blocks inside of comments: shell, output, and files,
// whose kind is "file PATH".
package tutorial

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
)

// stays reports whether a command stays in the foreground of a terminal: the cluster does, the operator, and a server.
var stays = regexp.MustCompile(`^([A-Z_]+=('[^']*'|\S+) )*((bin/testcluster|(bin/)?shell-operator) (start|--)|mysqld ` +
	`--|python3 \S+ --port)`)

// program is a command that stays in the foreground, and all that it has printed.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// seen is how far a reader has looked at the output who waited for runs.
	seen int

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
	return p.has(func(text string) bool { return pages.Contains(text, line) })
}

// ran waits until a line has been printed, and then that a run went well. It begins where the one before has ended.
func (p *program) ran(line string) error {
	return p.has(func(text string) bool {
		at, found := p.seen, false
		for l := range strings.Lines(text[p.seen:]) {
			at += len(l)
			if found && strings.Contains(l, "Hook executed successfully") {
				p.seen = at
				return true
			}
			found = found || pages.Like(l, line)
		}
		return false
	})
}

// has waits until what has been printed is enough.
func (p *program) has(enough func(string) bool) error {
	late := time.NewTimer(test.Patience)
	defer late.Stop()
	for ended := p.ended; ; {
		text, more := p.printed()
		if enough(text) {
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
			return fmt.Errorf("it did not come within %s", test.Patience)
		}
	}
}

// reader follows a page.
type reader struct {
	t   *testing.T
	env []string
	// cluster and operator are what runs in the first two terminals; server is what an operator's hooks need.
	cluster, operator, server *program
	// answer is what the last commands printed that did not stay.
	answer string
	// dir is the working directory.
	dir string
	// before comes before the commands of each block.
	before string
}

// start starts a command in a terminal of its own.
func (r *reader) start(command string) *program {
	p := &program{cmd: r.bash("exec env " + command), ended: make(chan struct{}), more: make(chan struct{})}
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
	running := true
	select {
	case <-p.ended:
		running = false
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
		if status := p.cmd.ProcessState.ExitCode(); running && status != 0 && p != r.server {
			r.t.Errorf("%s has ended with status %d", p.cmd, status)
		}
	case <-time.After(test.Patience):
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
func (r *reader) do(b pages.Block) {
	commands := strings.TrimRight(b.Text, "\n")
	at := strings.LastIndex(commands, "\n") + 1
	last := commands[at:]
	if stays.MatchString(last) {
		commands = commands[:at]
	}
	// Commands that end with the operator come after the operator of the previous block has been stopped.
	if stays.MatchString(last) && strings.Contains(last, "shell-operator ") {
		r.stop(r.operator)
	}
	if strings.HasPrefix(commands, "export ") {
		r.export(commands)
	}
	out, err := r.bash(r.before + commands).CombinedOutput()
	if (err != nil) != (b.Mark == "fails") {
		r.t.Fatalf("line %d: error %v\n%s%s", b.Line, err, b.Text, out)
	}
	r.answer = string(out)
	switch {
	case strings.HasPrefix(last, "bin/testcluster"):
		r.answer = ""
		r.cluster = r.start(last)
		if err := r.cluster.until("ready"); err != nil {
			r.t.Fatalf("line %d: %v", b.Line, err)
		}
	case strings.Contains(last, "mysqld --"), strings.HasPrefix(last, "python3 "):
		r.answer = ""
		r.server = r.start(last)
		if err := r.server.until("127.0.0.1:"); err != nil {
			r.t.Fatalf("line %d: %v", b.Line, err)
		}
	case stays.MatchString(last):
		r.answer = ""
		r.operator = r.start(last)
	}
}

// sees waits until the operator has printed each of the lines, unless the commands right before them have.
func (r *reader) sees(b pages.Block) {
	for line := range strings.Lines(b.Text) {
		line = strings.TrimRight(line, "\n")
		if pages.Contains(r.answer, line) {
			continue
		}
		if r.operator == nil {
			r.t.Fatalf("line %d: expected %q, but the commands before printed\n%s", b.Line, line, r.answer)
		}
		if err := r.operator.until(line); err != nil {
			r.t.Fatalf("line %d: waited for %q: %v\nthe commands before printed\n%s", b.Line, line, err, r.answer)
		}
	}
}

// export lets all later commands have the variables of the first lines.
func (r *reader) export(line string) {
	first := ""
	for l := range strings.Lines(line) {
		if !strings.HasPrefix(l, "export ") {
			break
		}
		first += l
	}
	out, err := r.bash(first + "\nenv -0").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	r.env = slices.DeleteFunc(strings.Split(string(out), "\x00"), func(kv string) bool { return kv == "" })
}
