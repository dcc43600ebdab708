package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// varying are parts of the output of dev that differ from run to run: the address, directories, times and numbers of runs.
var varying = regexp.MustCompile(`https://[\w.:]+|hooks in \S+|/\S+/debug\.socket|\d\d:\d\d:\d\d\.\d{3}|\b\d+-\d+\b|\d+(\.\d+)?m?s\b`)

// TestReadmeInMemory types the first example of README on an API server in memory; package tutorial does on a real one.
func TestReadmeInMemory(t *testing.T) {
	testenv.Needs(t, "kubectl: run")
	readme, err := os.ReadFile(filepath.Join(test.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?s)\$ cat hooks/pods.sh\n(.*?)\$ shell-operator [^\n]*\n\$ kubectl ([^\n]*)\n(.*?)\nINFO msg='([^']*)'`).
		FindStringSubmatch(string(readme))
	if shown == nil {
		t.Fatal("README has no example")
	}
	dir := t.TempDir()
	testenv.Script(t, dir, "pods.sh", shown[1])
	s := develop(t, "--testcluster", "memory", dir)
	s.out.Until(t, "pods.sh 1-1 ended: succeeded", 1)
	c := &testenv.Cluster{Kubeconfig: s.kubeconfig(t)}
	if out := c.Kubectl(t, strings.Fields(shown[2])...); strings.TrimSpace(out) != shown[3] {
		t.Errorf("kubectl prints %q, README %q", out, shown[3])
	}
	s.out.Until(t, "| "+shown[4]+"\n", 1)
	s.end(t)
}

// TestReadmeDev compares the output of dev that README shows with the output of a session: each line comes, in this order.
func TestReadmeDev(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(test.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```sh\nshell-operator dev\n```\n")
	_, rest, _ = strings.Cut(rest, "```\n")
	shown, _, found := strings.Cut(rest, "```")
	if !found || strings.Count(shown, "\n") < 5 {
		t.Fatalf("README shows no session, but %q", shown)
	}
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	shown = strings.ReplaceAll(shown, "shop/", namespace+"/")
	c.Kubectl(t, "-n", namespace, "run", "web", "--image=nginx")
	dir := filepath.Join(t.TempDir(), "hooks")
	command(t, c.Kubeconfig, "init", filepath.Join(dir, "pods.sh"))
	s := develop(t, "--kube-config", c.Kubeconfig, dir)
	s.out.Until(t, "pods.sh 1-1 ended: succeeded", 1)
	c.Kubectl(t, "-n", namespace, "run", "db", "--image=nginx")
	s.out.Until(t, fmt.Sprintf("Pod %s/db was added", namespace), 1)
	s.out.Until(t, "ended: succeeded", strings.Count(s.out.String(), " began: ")) // other tests have Pods, too
	lines := strings.Split(varying.ReplaceAllString(s.out.String(), "~"), "\n")
	s.end(t)
	for want := range strings.Lines(shown) {
		want = varying.ReplaceAllString(strings.TrimSpace(want), "~")
		for len(lines) > 0 && lines[0] != want {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			t.Fatalf("the session has no line, in this order:\n%s\nbut\n%s", want, varying.ReplaceAllString(s.out.String(), "~"))
		}
	}
}
