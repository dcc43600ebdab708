package kubectl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// line is a command line with the way that it is expected to take.
type line struct{ way, text string }

// TestDifferential runs command lines with the complete kubectl and, on equal objects, with the trimmed one. Output, status and
// requests must be equal; the requests contain all that decides on the resulting objects, managedFields included.
func TestDifferential(t *testing.T) {
	c := testenv.Shared(t)
	blocks := append(written(t), generated(t)...)
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	if n < 300 {
		t.Errorf("there are only %d command lines", n)
	}
	if !test.Long() {
		blocks = selection(blocks, 20)
	}
	complete, trimmed := newSide(t, c, false), newSide(t, c, true)
	for _, s := range []*side{complete, trimmed} {
		unpack(t, filepath.Join(s.dir, "work"))
	}
	for _, b := range blocks {
		for _, l := range b {
			var want, got result
			var both sync.WaitGroup
			both.Go(func() { want = complete.run(l.text) })
			both.Go(func() { got = trimmed.run(l.text) })
			both.Wait()
			compare(t, l, got, want)
		}
	}
	// The objects that the lines have left, without what controllers add to them.
	const all = `kubectl get cm,secret,sa,deployment,role,rolebinding,svc,cronjob,job,quota,pdb,ingress -o json --show-managed-fields |
		jq 'del(.items[].status, .items[].metadata.annotations["deployment.kubernetes.io/revision"])
		| .items[].metadata.managedFields |= map(select(.manager != "kube-controller-manager"))'`
	compare(t, line{"served", all}, trimmed.run(all), complete.run(all))
	if t.Failed() {
		t.Logf("repeat it with: SEED=%d", seed())
	}
}

func compare(t *testing.T, l line, got, want result) {
	t.Helper()
	if way := map[bool]string{false: "served", true: "process"}[got.process]; way != l.way {
		t.Errorf("%s\nwas %s, not %s", l.text, way, l.way)
	}
	if len(got.calls) == 0 || slices.ContainsFunc(got.calls, func(c kubectl.Calls) bool { return c.Way == kubectl.Complete }) != got.process {
		t.Errorf("%s\nrecorded %v", l.text, got.calls)
	}
	for _, part := range []struct{ name, got, want string }{
		{"stdout", got.stdout, want.stdout}, {"stderr", got.stderr, want.stderr},
		{"status", fmt.Sprint(got.status), fmt.Sprint(want.status)},
		{"requests", strings.Join(got.requests, "\n\n"), strings.Join(want.requests, "\n\n")},
	} {
		if part.got != part.want {
			t.Errorf("%s\n%s of the trimmed kubectl:\n%s\nof the complete one:\n%s", l.text, part.name, part.got, part.want)
		}
	}
}

// TestRecorded: the trimmed kubectl records what it is called for, and why the complete one carries it out. Each of its commands has
// a line.
func TestRecorded(t *testing.T) {
	c := testenv.Shared(t)
	s := newSide(t, c, true)
	unpack(t, filepath.Join(s.dir, "work"))
	check := func(line string, want kubectl.Calls) {
		t.Helper()
		if got := s.run(line).calls; len(got) != 1 || got[0] != want {
			t.Errorf("%s\nrecorded %v, not %v", line, got, want)
		}
	}
	all := calls(t)
	for _, verb := range kubectl.Verbs {
		call := all[verb]
		if call == "" { // it has only subcommands
			call = all[map[string]string{"auth": "auth can-i", "rollout": "rollout restart"}[verb]]
		}
		check(call, kubectl.Calls{Verb: verb, Way: kubectl.Trimmed, Count: 1})
	}
	for _, test := range []struct{ line, verb, reason string }{
		{"kubectl", kubectl.Other, "command"},
		{"kubectl explain configmap", kubectl.Other, "command"},
		{"kubectl rollout history deployment web", "rollout", "command"},
		{"kubectl -n default explain configmap", kubectl.Other, "command"},
		{"kubectl get cm -v=0", "get", "flag"},
		{"kubectl -n default get cm --cache-dir=x", "get", "flag"},
		{"kubectl get cm --chunk-size=many", "get", "flag"},
		{"KUBERC=x kubectl get cm", "get", "kuberc"},
		{"LANG=de_DE.UTF-8 kubectl get cm", "get", "language"},
		{"SHELL_OPERATOR_KUBECTL_FILE=1,2,3,4 kubectl get cm", kubectl.Other, "path"},
	} {
		check(test.line, kubectl.Calls{Verb: test.verb, Way: kubectl.Complete, Reason: test.reason, Count: 1})
	}
	check("kubectl get cm && kubectl get cm", kubectl.Calls{Verb: "get", Way: kubectl.Trimmed, Count: 2})
	for line, want := range map[string]bool{"kubectl get cm": false, "kubectl get Secrets": true, "kubectl explain secret": true} {
		s.run(line)
		if text, err := os.ReadFile(s.calls); err != nil || kubectl.OnSecrets(text, 1<<10) != want {
			t.Errorf("%s recorded %q (%v)", line, text, err)
		}
	}
	for name, replace := range map[string]string{
		"a pipe": "mkfifo $FILE", "a link": "ln -s target $FILE", "a directory": "mkdir $FILE",
		"no directory": "export SHELL_OPERATOR_KUBECTL_CALLS=/missing/file",
	} {
		if got := s.run("FILE=$SHELL_OPERATOR_KUBECTL_CALLS; " + replace + "; kubectl version --client >/dev/null; status=$?; " +
			"rm -rf $FILE target; exit $status"); got.status != 0 || got.stderr != "" || len(got.calls) > 0 {
			t.Errorf("%s in place of the file: %+v", name, got)
		}
	}
}

// selection returns the first block and others at random, with at least n lines.
func selection(blocks [][]line, n int) [][]line {
	selected := blocks[:1:1]
	random := rand.New(rand.NewPCG(seed(), 0))
	for _, i := range random.Perm(len(blocks) - 1) {
		if n -= len(blocks[i+1]); n < 0 {
			break
		}
		selected = append(selected, blocks[i+1])
	}
	return selected
}

// written reads the blocks of lines.txt.
func written(t *testing.T) (blocks [][]line) {
	t.Helper()
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var b []line
		for l := range strings.Lines(block) {
			if way, text, ok := strings.Cut(strings.TrimSpace(l), " "); ok && way != "#" {
				b = append(b, line{way, text})
			}
		}
		if len(b) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func unpack(t *testing.T, dir string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// calls are valid calls of the served commands, to which single flags are added, and "options" one for the flags of all commands. N is a
// number of its own in each line.
func calls(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		command, call, _ := strings.Cut(strings.TrimSpace(line), ": ")
		all[command] = call
	}
	return all
}

// values of flags that accept only some.
var values = map[string][]string{
	"aggregation-rule": {"a=b"}, "as-user-extra": {"a=b"}, "cascade": {"orphan", "background"}, "dry-run": {"client", "server"},
	"field-selector": {"metadata.name=settings"},
	"for":            {"delete"}, "from-env-file": {"settings.env"}, "from-file": {"cm.yaml"}, "output": {"json", "yaml", "name"},
	"patch": {`'{"data": {}}'`}, "request-timeout": {"1m"}, "timeout": {"1m"},
	"selector": {"app=web"}, "sort-by": {".metadata.name"}, "type": {"merge"}, "username": {"someone"}, "v": {"0"},
	"validate": {"ignore", "warn"},
}

// elsewhere are flags of the complete kubectl alone.
var elsewhere = []string{
	"help", "kustomize", "cache-dir", "kuberc", "profile", "profile-output", "v", "vmodule", "log-flush-frequency", "edit", "interactive",
}

var flagOfHelp = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)=(.*):$`)

// generated returns a block for each command: calls with each flag that its help lists.
func generated(t *testing.T) (blocks [][]line) {
	t.Helper()
	number, all := 0, calls(t)
	for _, command := range slices.Sorted(maps.Keys(all)) {
		args := append(strings.Fields(command), "--help")
		if command == "options" {
			args = args[:1]
		}
		help, err := exec.Command(bin(t, "kubectl"), args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		var b []line
		for _, m := range flagOfHelp.FindAllStringSubmatch(string(help), -1) {
			flag, byDefault := m[1], m[2]
			// Watching does not end by itself; labels and annotations are listed in no order.
			if strings.HasPrefix(flag, "watch") && command == "get" || flag == "list" && command != "auth can-i" {
				continue
			}
			choices := values[flag]
			switch {
			case choices != nil:
			case byDefault == "true" || byDefault == "false":
				choices = []string{"true", "false"}
			case regexp.MustCompile(`^-?\d+$`).MatchString(byDefault):
				choices = []string{"1"}
			case regexp.MustCompile(`^\d+\w+$`).MatchString(byDefault):
				choices = []string{"1s"}
			default:
				choices = []string{"x"}
			}
			for _, value := range choices {
				number++
				l := line{"served", strings.ReplaceAll(all[command], "-N", fmt.Sprint("-", number))}
				l.text = strings.ReplaceAll(strings.ReplaceAll(l.text, "=N", fmt.Sprint("=", number)), `"N"`, fmt.Sprintf("%q", fmt.Sprint(number)))
				l.text += fmt.Sprintf(" --%s=%s", flag, value)
				if slices.Contains(elsewhere, flag) || command == "replace" && flag == "raw" {
					l.way = "process"
				}
				b = append(b, l)
			}
		}
		if len(b) == 0 {
			t.Fatalf("the help of %s lists no flag:\n%s", command, help)
		}
		// Blocks of a few lines, so that a selection has some of each command.
		for chunk := range slices.Chunk(b, 5) {
			blocks = append(blocks, chunk)
		}
	}
	return blocks
}
