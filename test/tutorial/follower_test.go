package tutorial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// follower follows one page.
type follower struct {
	*reader
	cluster *testenv.Cluster
	// values are those for the chart so far.
	values string
}

// block runs or checks a block.
func (f *follower) block(b pages.Block) {
	word, what, _ := strings.Cut(b.Mark, ": ")
	if word == "wait" || word == "ran" || word == "ends" {
		f.first(b, word, what)
	}
	if b.Kind == "sh" || b.Kind == "bash" {
		b.Text = notHere.ReplaceAllString(b.Text, "")
	}
	check := checkOf(b)
	if check == nil {
		f.t.Fatalf("line %d: no test for this block:\n%s", b.Line, b.Text)
	}
	check(f, b, what)
}

// checkOf returns how a follower runs or checks a block; what is the second part of its mark. It is nil if there is no way.
func checkOf(b pages.Block) func(f *follower, b pages.Block, what string) {
	simple := func(check func(*follower, pages.Block)) func(*follower, pages.Block, string) {
		return func(f *follower, b pages.Block, _ string) { check(f, b) }
	}
	word, _, _ := strings.Cut(b.Mark, ": ")
	switch {
	case word == "not run", b.Text == "":
		return func(*follower, pages.Block, string) {}
	case word == "answer of":
		return (*follower).answers
	case word == "file":
		return (*follower).file
	case word == "in":
		return (*follower).isIn
	case word == "part of a hook":
		return (*follower).partOfHook
	case word == "in a binding":
		return simple((*follower).inBinding)
	case word == "values":
		return (*follower).chart
	case strings.HasPrefix(b.Text, "#!"):
		return func(f *follower, b pages.Block, _ string) { f.hook(b.Text) }
	case b.Kind == "sh", b.Kind == "bash":
		return simple((*follower).each)
	case b.Kind == "" && strings.HasPrefix(b.Text, "$ "):
		return simple((*follower).console)
	case b.Kind == "" && strings.HasPrefix(b.Text, "shell-operator "):
		return simple((*follower).examples)
	case b.Kind == "":
		return simple((*follower).sees)
	case b.Kind == "dockerfile":
		return simple((*follower).dockerfile)
	case b.Kind == "yaml" && strings.HasPrefix(b.Text, "apiVersion: "):
		return func(f *follower, b pages.Block, _ string) { f.manifest(b, b.Text) }
	case b.Kind == "yaml" && strings.HasPrefix(b.Text, "containers:"):
		return simple((*follower).containers)
	case parsed(b), b.Kind == "json context", b.Kind == "drawing":
		return func(*follower, pages.Block, string) {} // see checker for the test that reads it
	}
	return nil
}

func (f *follower) file(b pages.Block, name string) {
	mode := os.FileMode(0o644)
	if strings.HasPrefix(b.Text, "#!") {
		mode = 0o755
	}
	write(f.t, filepath.Join(f.dir, name), b.Text, mode)
}

func (f *follower) inBinding(b pages.Block) {
	f.hook("#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'YAML'\nconfigVersion: v1\nkubernetes:\n- name: pods\n  kind: Pod\n" + b.Text +
		"YAML\nfi\n")
}

func (f *follower) containers(b pages.Block) {
	f.manifest(b, "apiVersion: v1\nkind: Pod\nmetadata: {name: shown, namespace: default}\nspec:\n"+indented(b.Text))
}

// first waits for what has to be before a block is for the reader.
func (f *follower) first(b pages.Block, word, what string) {
	var err error
	switch word {
	case "wait":
		err = f.operator.until(what)
	case "ran":
		err = f.operator.ran(what)
	case "ends":
		f.stop(f.server)
	}
	if err != nil {
		f.t.Fatalf("line %d: waited for %q: %v", b.Line, what, err)
	}
}

// notHere are lines that need a container engine or a node.
var notHere = regexp.MustCompile(`(?m)^(docker build|kubectl logs|kubectl port-forward).*\n`)

// answers compares a block with what a command answers that readers do not see. It may fail: errors are shown, too.
func (f *follower) answers(b pages.Block, command string) {
	f.do(pages.Block{Line: b.Line, Text: command + " || true"})
	if b.Kind != "json" {
		f.answerIs(b)
		return
	}
	if err := pages.SameKeys(b.Text, f.answer); err != nil {
		f.t.Errorf("line %d: %v, in the answer of %s\n%s", b.Line, err, command, f.answer)
	}
}

func (f *follower) answerIs(b pages.Block) {
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSuffix(line, "\n")
		// One jq sorts the keys, the other does not.
		document := strings.HasPrefix(b.Kind, "json ") && slices.ContainsFunc(strings.Split(f.answer, "\n"), func(l string) bool {
			return pages.Same(line, l) == nil
		})
		if !document && !pages.Contains(f.answer, line) {
			f.t.Errorf("line %d: %q is not in the answer\n%s", b.Line, line, f.answer)
		}
	}
}

var (
	instruction = regexp.MustCompile(`^(FROM|RUN|COPY|ADD|ENV|WORKDIR|ENTRYPOINT|CMD) \S`)
	fromOurs    = regexp.MustCompile(`--from=ghcr.io/shell-operator/shell-operator:\S+ (\S+)`)
)

// dockerfile checks what can be without a container engine: the instructions, and that paths taken from our image are promised.
func (f *follower) dockerfile(b pages.Block) {
	promised, err := os.ReadFile(filepath.Join(test.Root(), "docs", "reference", "image.md"))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", "")) {
		if strings.TrimSpace(line) != "" && !instruction.MatchString(line) {
			f.t.Errorf("line %d: %q is not an instruction of a Dockerfile", b.Line, line)
		}
		if m := fromOurs.FindStringSubmatch(line); m != nil && !strings.Contains(string(promised), "\n| `"+m[1]+"` |") {
			f.t.Errorf("line %d: docs/reference/image.md does not promise %s", b.Line, m[1])
		}
	}
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func (f *follower) hook(text string) {
	write(f.t, filepath.Join(f.dir, "hooks", "hook.sh"), text, 0o755)
}

// isIn looks for lines of a block in a file that a command has written.
func (f *follower) isIn(b pages.Block, file string) {
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		f.t.Fatalf("line %d: %v", b.Line, err)
	}
	if !strings.Contains(string(text), strings.TrimSpace(b.Text)) {
		f.t.Errorf("line %d: %s does not have these lines, but\n%s", b.Line, file, text)
	}
}

// partOfHook runs the hook of the hidden file "part", with the block in it, on the hidden file context.json. The result has to
// contain what is wanted.
func (f *follower) partOfHook(b pages.Block, want string) {
	hook, err := os.ReadFile(filepath.Join(f.dir, "part"))
	if err != nil {
		f.t.Fatalf("line %d: which hook is this a part of? %v", b.Line, err)
	}
	write(f.t, filepath.Join(f.dir, "parts", "hook"), strings.Replace(string(hook), "%s\n", b.Text, 1), 0o755)
	f.do(pages.Block{Line: b.Line, Text: "shell-operator run parts/hook --context context.json -o json"})
	if !strings.Contains(strings.Join(strings.Fields(f.answer), ""), strings.Join(strings.Fields(want), "")) {
		f.t.Errorf("line %d: the run returns\n%s\nwant %s", b.Line, f.answer, want)
	}
}

// console types what follows the prompts, and looks for what follows that. A file that is shown is written.
func (f *follower) console(b pages.Block) {
	for part := range strings.SplitSeq(strings.TrimPrefix(b.Text, "$ "), "\n$ ") {
		command, answer, _ := strings.Cut(part, "\n")
		if file, ok := strings.CutPrefix(command, "cat "); ok {
			write(f.t, filepath.Join(f.dir, file), answer+"\n", 0o755)
		}
		f.each(pages.Block{Line: b.Line, Text: command})
		if stays.MatchString(command) { // people are slower than the first list
			if err := f.operator.until("Unlock kubernetes.Event tasks"); err != nil {
				f.t.Fatalf("line %d: %v", b.Line, err)
			}
		}
		f.sees(pages.Block{Line: b.Line, Text: answer})
	}
}

// examples types the lines after the first empty one. Those that would go on are interrupted when they have begun to print.
func (f *follower) examples(b pages.Block) {
	_, lines, _ := strings.Cut(b.Text, "\n\n")
	for line := range strings.Lines(lines) {
		if strings.Contains(line, " tail") || strings.Contains(line, " --watch") {
			line = f.interrupted(b, line)
		}
		f.do(pages.Block{Line: b.Line, Text: line})
	}
}

// interrupted types the first command of a line and Ctrl-C once it prints, and returns a line that has the rest read the output.
func (f *follower) interrupted(b pages.Block, line string) string {
	command, rest, filtered := strings.Cut(line, " | ")
	p := f.start(command)
	if err := p.has(func(text string) bool { return strings.HasSuffix(text, "\n") }); err != nil {
		f.t.Fatalf("line %d: %v", b.Line, err)
	}
	f.stop(p)
	if !filtered {
		return "true"
	}
	text, _ := p.printed()
	_, entries, _ := strings.Cut(text, "until Ctrl-C\n")
	write(f.t, filepath.Join(f.dir, "entries"), entries, 0o600)
	return "<entries " + rest
}

// manifest lets the API server take it.
func (f *follower) manifest(b pages.Block, text string) {
	if out, err := f.cluster.TryKubectl(text, "apply", "-f", "-"); err != nil {
		f.t.Errorf("line %d: %v\n%s", b.Line, err, out)
	}
}

// chart collects values, and sees that the chart takes them. Those that are instead of others are not collected.
func (f *follower) chart(b pages.Block, how string) {
	file, values := "instead.yaml", b.Text
	if how != "instead" {
		f.values += b.Text
		file, values = "values.yaml", f.values
	}
	write(f.t, filepath.Join(f.dir, file), values, 0o644)
	f.tool(b, "chart", "render", "--values", file, "deploy/chart")
}

var deliveryTools = sync.OnceValue(func() error {
	cmd := exec.Command("make", "--no-print-directory", "bin/tools/chart")
	cmd.Dir = test.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build bin/tools/chart: %w\n%s", err, out)
	}
	return nil
})

// tool runs one of the programs that are made from the libraries of others.
func (f *follower) tool(b pages.Block, args ...string) {
	f.t.Helper()
	if err := deliveryTools(); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(test.Root(), "bin", "tools", args[0]), args[1:]...)
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Errorf("line %d: %s: %v\n%s", b.Line, strings.Join(args, " "), err, out)
	}
}

// each types a block whose lines may be several operators, one after the other. What make builds and the cluster are there.
func (f *follower) each(b pages.Block) {
	var rest []string
	for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", "")) {
		switch {
		case strings.HasPrefix(line, "make "), strings.HasPrefix(line, "bin/testcluster start"):
		case stays.MatchString(line):
			one := b
			one.Text = strings.Join(rest, "") + line
			rest = nil
			f.do(one)
			if !strings.Contains(line, "shell-operator ") {
				continue
			}
			// The hooks have been loaded, and the connection is there.
			if err := f.operator.until("base http server started"); err != nil {
				f.t.Fatalf("line %d: %v\n%s", b.Line, err, line)
			}
		default:
			rest = append(rest, line)
		}
	}
	if len(rest) > 0 {
		b.Text = strings.Join(rest, "")
		f.do(b)
	}
}
