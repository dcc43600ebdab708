package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/test"
	pages "github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// snippet is a piece of shell that a page shows.
type snippet struct {
	place, text string
	// inText marks a command within a sentence, where arguments may be missing.
	inText bool
}

// call is one simple command of a snippet. What the shell would put in is a word of its own, unknown.
type call struct {
	place string
	words []string
}

// unknown replaces values that only the shell can compute: $name, $(command).
const unknown = "UNKNOWN"

var (
	fence  = regexp.MustCompile("(?ms)^( *)```([^\n`]*)\n(.*?)^ *```")
	inline = regexp.MustCompile("`([^`]+)`")
	spaces = regexp.MustCompile(`\s+`)
)

// shown returns the shell of all pages: blocks that are marked so, what follows a prompt in others, and code in the text
// that begins with one of the programs. flags are the flags that stand in the text alone.
func shown(t *testing.T) (blocks, inText, flags []snippet) {
	t.Helper()
	all, err := pages.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range all {
		for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
			place := fmt.Sprintf("%s:%d", page, 1+strings.Count(text[:m[0]], "\n"))
			language, body := text[m[4]:m[5]], text[m[6]:m[7]]
			if slices.Contains([]string{"sh", "bash", "console"}, language) {
				blocks = append(blocks, snippet{place: place, text: body})
				continue
			}
			for line := range strings.Lines(body) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					blocks = append(blocks, snippet{place: place, text: command})
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			code := spaces.ReplaceAllString(m[1], " ")
			first, _, _ := strings.Cut(code, " ")
			switch {
			case strings.HasPrefix(code, "--") && code != "---":
				flags = append(flags, snippet{place: page, text: code})
			case strings.Contains(code, "…"):
			case slices.Contains([]string{"shell-operator", "bin/shell-operator", "make", "kubectl"}, first) && first != code:
				inText = append(inText, snippet{place: page, text: code, inText: true})
			}
		}
	}
	return blocks, inText, flags
}

// calls returns the simple commands of a snippet, also those inside of others.
func calls(s snippet) (all []call, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(s.text), s.place)
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		if c, ok := node.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			one := call{place: s.place}
			for _, word := range c.Args {
				one.words = append(one.words, literal(word.Parts))
			}
			all = append(all, one)
		}
		return true
	})
	return all, nil
}

func literal(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(literal(p.Parts))
		default:
			b.WriteString(unknown)
		}
	}
	return b.String()
}

// TestCommandsOfPages checks the commands that pages show: they are shell, commands and flags of the operator and of
// kubectl exist, and so do targets of make and files of the repository.
func TestCommandsOfPages(t *testing.T) {
	blocks, inText, _ := shown(t)
	if len(blocks) < 100 || len(inText) < 10 {
		t.Fatalf("only %d blocks and %d commands in the text found", len(blocks), len(inText))
	}
	targets := makeTargets(t)
	seen := map[string]int{}
	for _, s := range append(blocks, inText...) {
		if out, err := bashReads(s.text); err != nil {
			t.Errorf("%s: bash does not understand it: %v\n%s%s", s.place, err, s.text, out)
			continue
		}
		all, err := calls(s)
		if err != nil {
			t.Errorf("%s: %v", s.place, err)
			continue
		}
		for _, c := range all {
			checkPaths(t, c)
			switch words := program(c.words); words[0] {
			case "shell-operator":
				seen[words[0]]++
				if err := understands(words[1:], s.inText); err != nil {
					t.Errorf("%s: %s: %v", c.place, strings.Join(c.words, " "), err)
				}
			case "make":
				seen[words[0]]++
				for _, target := range words[1:] {
					if !strings.Contains(target, "=") && !targets[target] {
						t.Errorf("%s: the Makefile has no target %s", c.place, target)
					}
				}
			case "testcluster":
				seen[words[0]]++
				if len(words) < 2 || !slices.Contains([]string{"start", "restart", "kubectl"}, words[1]) {
					t.Errorf("%s: testcluster knows no %q", c.place, words[1:])
				}
			}
		}
	}
	for _, name := range []string{"shell-operator", "make", "testcluster"} {
		if seen[name] == 0 {
			t.Errorf("no page shows a command that begins with %s", name)
		}
	}
}

// TestFlagsOfPages finds flags in the text that the program does not have.
func TestFlagsOfPages(t *testing.T) {
	// Of hooks, and of other programs.
	foreign := []string{"--config", "--arg", "--jq", "--strategic", "--build-arg"}
	// Of kubectl.
	foreign = append(foreign, "--cache-dir", "--edit", "--interactive", "--kuberc", "--profile", "--prune", "--raw", "--v", "--vmodule",
		"--watch-only")
	// Of Helm.
	foreign = append(foreign, "--no-hooks")
	// Of the shell library.
	foreign = append(foreign, "--allow-empty", "--force", "--drift", "--prune-kind")
	// In the description of what is the same for all flags.
	foreign = append(foreign, "--flag", "--workers")
	known := map[string]bool{"help": true, "version": true}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		note := func(f *pflag.Flag) { known[f.Name] = true }
		c.Flags().VisitAll(note)
		c.PersistentFlags().VisitAll(note)
		for _, below := range c.Commands() {
			add(below)
		}
	}
	add(newRootCommand(newSettings(nil), io.Discard, io.Discard))
	_, _, flags := shown(t)
	for _, s := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(s.text, "--"), " ")
		name, _, _ = strings.Cut(name, "=")
		begin, end, group := strings.Cut(name, "…") // several that begin or end alike
		group = group || strings.HasSuffix(name, "-")
		exists := known[name]
		for k := range known {
			exists = exists || group && strings.HasPrefix(k, begin) && strings.HasSuffix(k, end)
		}
		if !exists && !slices.Contains(foreign, "--"+name) {
			t.Errorf("%s: there is no flag %q", s.place, s.text)
		}
	}
}

// program cuts off what is in front of the program: docker run, kubectl exec, and the folder it is in.
func program(words []string) []string {
	within := func(at int) []string {
		if at < 0 || at+1 >= len(words) {
			return []string{words[0]}
		}
		return program(words[at+1:])
	}
	switch {
	case words[0] == "kubectl" && len(words) > 1 && slices.Contains(words, "exec") && slices.Contains(words, "--"):
		return within(slices.Index(words, "--"))
	case words[0] == "docker" && slices.Contains(words, "shell-operator"):
		return within(slices.Index(words, "shell-operator") - 1)
	}
	return append([]string{filepath.Base(words[0])}, words[1:]...)
}

// understands parses arguments as the program does, and runs nothing. A command by itself may be a name in a sentence.
func understands(args []string, mayBeName bool) error {
	root := newRootCommand(newSettings(nil), io.Discard, io.Discard)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	command.InitDefaultHelpFlag()
	command.InitDefaultVersionFlag()
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if mayBeName && len(rest) == 0 {
		return nil
	}
	return command.ValidateArgs(command.Flags().Args())
}

// makeTargets are the documented targets of the Makefile.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(string(text), -1) {
		targets[m[1]] = true
	}
	return targets
}

// checkPaths checks that the files of the repository in a command exist.
func checkPaths(t *testing.T, c call) {
	t.Helper()
	for i, word := range c.words {
		if c.words[0] == "kubectl" && c.words[i-min(i, 1)] != "-f" && !strings.Contains(word, "=") {
			continue // deploy/NAME is a Deployment
		}
		if _, value, ok := strings.Cut(word, "="); ok {
			word = value
		}
		word = strings.TrimPrefix(word, "./")
		top, _, below := strings.Cut(word, "/")
		if !below ||
			!slices.Contains([]string{"bench", "cmd", "deploy", "docs", "examples", "internal", "scripts", "sdk", "test", "testcluster", "tools"},
				top) {
			continue
		}
		if _, err := os.Stat(filepath.Join("../..", word)); err != nil {
			t.Errorf("%s: %s: the repository has no such file", c.place, word)
		}
	}
}

func bashReads(text string) ([]byte, error) {
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(text)
	return cmd.CombinedOutput()
}

// TestKubectlOfPages runs each kubectl command of the pages with --help: kubectl rejects unknown flags.
func TestKubectlOfPages(t *testing.T) {
	testenv.Require(t) // starts kubectl a hundred times, which the same binary as a control plane brings
	kubectl := filepath.Join(test.Tools(t), "kubectl")
	blocks, inText, _ := shown(t)
	work := make(chan call)
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for c := range work {
				args := slices.Clone(c.words[1:])
				if at := slices.Index(args, "--"); at >= 0 {
					args = args[:at]
				}
				cmd := exec.Command(kubectl, append(args, "--help")...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", c.place, strings.Join(c.words, " "), err, out)
				}
			}
		})
	}
	asked := map[string]bool{}
	for _, s := range append(blocks, inText...) {
		all, _ := calls(s) // the other test complains
		for _, c := range all {
			if key := strings.Join(c.words, " "); c.words[0] == "kubectl" && len(c.words) > 1 && !asked[key] {
				asked[key] = true
				work <- c
			}
		}
	}
	close(work)
	asking.Wait()
	if len(asked) < 50 {
		t.Errorf("only %d commands found", len(asked))
	}
}
