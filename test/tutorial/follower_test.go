package tutorial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shell-operator/shell-operator/internal/testenv"
)

// follower follows one page.
type follower struct {
	*reader
	page    page
	cluster *testenv.Cluster
	// done counts blocks, parts those that are parts of hooks.
	done, parts int
	// left are the beginnings of blocks that cannot be typed.
	left map[string]bool
	// values are those for the chart so far.
	values string
}

// block does what a block is for.
func (f *follower) block(b block) {
	for _, c := range cannot {
		if c.page == f.page.name && strings.HasPrefix(b.text, c.begins) {
			if f.left == nil {
				f.left = map[string]bool{}
			}
			f.left[c.begins] = true
			return
		}
	}
	word, what, _ := strings.Cut(b.mark, ": ")
	if word == "wait" {
		if err := f.operator.until(what); err != nil {
			f.t.Fatalf("line %d: waited for %q: %v", b.line, what, err)
		}
	}
	f.done++
	switch {
	case word == "file":
		mode := os.FileMode(0o644)
		if strings.HasPrefix(b.text, "#!") {
			mode = 0o755
		}
		write(f.t, filepath.Join(f.dir, what), b.text, mode)
	case word == "in":
		f.isIn(b, what)
	case word == "part of a hook":
		f.partOfHook(b)
	case word == "in a binding":
		f.hook("#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'YAML'\nconfigVersion: v1\nkubernetes:\n- name: pods\n  kind: Pod\n" + b.text + "YAML\nfi\n")
	case word == "values":
		f.chart(b)
	case strings.HasPrefix(b.text, "#!"):
		f.hook(b.text)
	case b.language == "sh", b.language == "bash":
		f.each(b)
	case b.language == "" && strings.HasPrefix(b.text, "$ "):
		f.console(b)
	case b.language == "" && strings.HasPrefix(b.text, "shell-operator "):
		f.examples(b)
	case b.language == "":
		f.sees(b)
	case b.language == "dockerfile":
		write(f.t, filepath.Join(f.dir, "Dockerfile"), b.text, 0o644)
		f.tool(b, "dockerfile", "Dockerfile")
	case b.language == "yaml" && strings.HasPrefix(b.text, "apiVersion: "):
		f.manifest(b, b.text)
	case b.language == "yaml" && strings.HasPrefix(b.text, "containers:"):
		f.manifest(b, "apiVersion: v1\nkind: Pod\nmetadata: {name: shown, namespace: default}\nspec:\n"+indented(b.text))
	case slices.Contains(static, b.language):
		f.done-- // docs/docs_test.go reads these
	default:
		f.t.Fatalf("line %d: nobody knows what to do with this block:\n%s", b.line, b.text)
	}
}

// static are blocks that are read by the operator's own parsers, in docs/docs_test.go.
var static = []string{"yaml", "json", "yaml patch", "json patch", "json metrics"}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func (f *follower) hook(text string) {
	name := f.page.hook
	if name == "" {
		name = "hook.sh"
	}
	write(f.t, filepath.Join(f.dir, "hooks", name), text, 0o755)
}

// isIn looks for lines of a block in a file that a command has written.
func (f *follower) isIn(b block, file string) {
	text, err := os.ReadFile(filepath.Join(f.dir, file))
	if err != nil {
		f.t.Fatalf("line %d: %v", b.line, err)
	}
	if !strings.Contains(string(text), strings.TrimSpace(b.text)) {
		f.t.Errorf("line %d: %s does not have these lines, but\n%s", b.line, file, text)
	}
}

// partOfHook runs a hook with the block in it once, as the operator does.
func (f *follower) partOfHook(b block) {
	if f.parts++; f.parts > len(f.page.parts) {
		f.t.Fatalf("line %d: which hook is this a part of?\n%s", b.line, b.text)
	}
	p := f.page.parts[f.parts-1]
	write(f.t, filepath.Join(f.dir, "parts", "hook"), fmt.Sprintf(p.hook, b.text), 0o755)
	write(f.t, filepath.Join(f.dir, "context.json"), p.context, 0o644)
	f.do(block{line: b.line, text: "shell-operator run parts/hook --context context.json -o json"})
	if !strings.Contains(strings.Join(strings.Fields(f.answer), ""), strings.Join(strings.Fields(p.want), "")) {
		f.t.Errorf("line %d: the run hands back\n%s\nwant %s", b.line, f.answer, p.want)
	}
}

// console types what follows the prompts, and looks for what follows that. A file that is shown is written.
func (f *follower) console(b block) {
	for part := range strings.SplitSeq(strings.TrimPrefix(b.text, "$ "), "\n$ ") {
		command, answer, _ := strings.Cut(part, "\n")
		if file, ok := strings.CutPrefix(command, "cat "); ok {
			write(f.t, filepath.Join(f.dir, file), answer+"\n", 0o755)
		}
		f.each(block{line: b.line, text: command})
		if stays.MatchString(command) { // people are slower than the first list
			if err := f.operator.until("Unlock kubernetes.Event tasks"); err != nil {
				f.t.Fatalf("line %d: %v", b.line, err)
			}
		}
		f.sees(block{line: b.line, text: answer})
	}
}

// examples types the lines after the first empty one. Those that would go on are ended after a moment.
func (f *follower) examples(b block) {
	_, lines, _ := strings.Cut(b.text, "\n\n")
	for line := range strings.Lines(lines) {
		if strings.Contains(line, " tail") || strings.Contains(line, " --watch") {
			line = "timeout --foreground --signal INT --preserve-status 0.5 " + line
		}
		f.do(block{line: b.line, text: line})
	}
}

// manifest lets the API server take it.
func (f *follower) manifest(b block, text string) {
	if out, err := f.cluster.TryKubectl(text, "apply", "-f", "-"); err != nil {
		f.t.Errorf("line %d: %v\n%s", b.line, err, out)
	}
}

// chart collects values, and sees that the chart takes them.
func (f *follower) chart(b block) {
	f.values += b.text
	write(f.t, filepath.Join(f.dir, "values.yaml"), f.values, 0o644)
	f.tool(b, "chart", "render", "--values", "values.yaml", "deploy/chart")
}

// helm does with Helm's libraries what the program helm does for an upgrade: it has the chart make manifests, and applies
// them. It keeps no record of the release.
const helm = `#!/usr/bin/env bash
set -euo pipefail
[[ "$1 $2 $4" == "upgrade --install deploy/chart" ]] || { echo "helm $*: the test knows only helm upgrade --install NAME deploy/chart" >&2; exit 1; }
name=$3 namespace=default values=() create=
shift 4
while (($#)); do
  case $1 in
    --namespace) namespace=$2; shift 2 ;;
    --values) values+=(--values "$2"); shift 2 ;;
    --create-namespace) create=yes; shift ;;
    *) echo "the test does not know $1" >&2; exit 1 ;;
  esac
done
given=$KUBECONFIG
manifests=$(chart render --name "$name" --namespace "$namespace" "${values[@]}" deploy/chart)
[[ -z $create ]] || kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f -
# With -n, kubectl would refuse what the chart has for other namespaces.
export KUBECONFIG=$(mktemp)
trap 'rm "$KUBECONFIG"' EXIT
kubectl --kubeconfig "$given" config view --flatten >"$KUBECONFIG"
kubectl config set-context --current --namespace "$namespace" >/dev/null
kubectl apply --server-side -f - <<<"$manifests"
`

var deliveryTools = sync.OnceValue(func() error {
	cmd := exec.Command("make", "--no-print-directory", "bin/tools/chart", "bin/tools/dockerfile")
	cmd.Dir = testenv.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build what reads charts and Dockerfiles: %w\n%s", err, out)
	}
	return nil
})

// tool runs one of the programs that are made from the libraries of others.
func (f *follower) tool(b block, args ...string) {
	f.t.Helper()
	if err := deliveryTools(); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(testenv.Root(), "bin", "tools", args[0]), args[1:]...)
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Errorf("line %d: %s: %v\n%s", b.line, strings.Join(args, " "), err, out)
	}
}

// each types a block whose lines may be several operators, one after the other. What make builds and the cluster are there.
func (f *follower) each(b block) {
	var rest []string
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
		switch {
		case strings.HasPrefix(line, "make "), strings.HasPrefix(line, "bin/testcluster start"):
		case stays.MatchString(line):
			one := b
			one.text = strings.Join(rest, "") + line
			rest = nil
			f.do(one)
			// The hooks have been loaded, and the connection is there.
			if err := f.operator.until("base http server started"); err != nil {
				f.t.Fatalf("line %d: %v\n%s", b.line, err, line)
			}
		default:
			rest = append(rest, line)
		}
	}
	if len(rest) > 0 {
		b.text = strings.Join(rest, "")
		f.do(b)
	}
}

// TestLeftOut sees that what cannot be typed is on pages that are followed.
func TestLeftOut(t *testing.T) {
	for _, c := range cannot {
		if !slices.ContainsFunc(allPages(), func(p page) bool { return p.name == c.page }) {
			t.Errorf("%s is not followed, so nothing of it need be left out", c.page)
		}
	}
}
