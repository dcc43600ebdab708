package tutorial

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/testenv"
)

// howTo is a page of docs/how-to, and what its reader has before beginning.
type howTo struct {
	page string
	// files are those of the working directory; the ones in hooks are executable.
	files map[string]string
	// running tells that an operator runs already, on hooks.
	running bool
	// replace changes words of the page into those that are true here.
	replace []string
}

const (
	podsHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1, kubernetes: [{name: pods, kind: Pod}]}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pod-report", "namespace": "default"}}}' >"$KUBERNETES_PATCH_PATH"
`
	podsOnly = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1, kubernetes: [{name: pods, kind: Pod}]}'; exit; fi
echo fine
`
	tickHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, schedule: [{name: every-minute, crontab: "* * * * *"}]}'; exit; fi
echo tick
`
	stuckHook = `#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; exit; fi
echo "the disk is full" >&2
exit 1
`
	addedPod = `{"binding": "pods", "type": "Event", "watchEvent": "Added", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}}`
)

// TestHowTo follows pages of docs/how-to, one after the other on one cluster.
func TestHowTo(t *testing.T) {
	cluster := testenv.Own(t)
	server := cluster.Kubectl(t, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
	config, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	for _, h := range []howTo{
		{page: "check-hooks", files: map[string]string{"hooks/pods.sh": podsHook, "hooks/tick.sh": tickHook, "added.json": addedPod}},
		{page: "give-the-operator-its-rights", files: map[string]string{"hooks/report.sh": podsOnly}},
		{
			page:    "run-outside-a-cluster",
			files:   map[string]string{"hooks/pods.sh": podsOnly, "staging.kubeconfig": string(config)},
			replace: []string{"http://127.0.0.1:8001", server, "--kube-context staging", "--kube-context testcluster"},
		},
		{page: "find-out-why-a-hook-does-not-run", files: map[string]string{"hooks/a-stuck.sh": stuckHook}, running: true, replace: []string{"17-4", "1-1"}},
		{page: "develop-webhooks-on-your-machine", replace: []string{"/tmp/cluster/", cluster.Dir + "/"}},
		{page: "validate-objects"},
		{page: "answer-http-requests", replace: []string{"127.0.0.1:9690", "127.0.0.1:" + port}},
	} {
		t.Run(h.page, func(t *testing.T) { h.follow(t, cluster, port) })
	}
}

func (h howTo) follow(t *testing.T, cluster *testenv.Cluster, port string) {
	dir := workingDirectory(t, h.files)
	sockets, err := os.MkdirTemp("", "how-to-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	config, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, config, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "how-to", h.page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, dir: dir, env: append(os.Environ(),
		"PATH="+dir+"/bin:"+dir+"/bin/tools:"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig,
		"SHELL_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT=0", "SHELL_OPERATOR_TMP_DIR="+filepath.Join(t.TempDir(), "tmp"),
		"VALIDATING_WEBHOOK_LISTEN_ADDRESS=127.0.0.1", "VALIDATING_WEBHOOK_LISTEN_PORT=0",
		"SHELL_OPERATOR_HTTP_LISTEN_PORT="+port, "DEBUG_UNIX_SOCKET="+filepath.Join(sockets, "socket"))}
	defer func() {
		r.stop(r.operator)
		if t.Failed() && r.operator != nil {
			printed, _ := r.operator.printed()
			t.Logf("the last operator printed:\n%s", printed)
		}
	}()
	if h.running {
		r.do(block{text: "shell-operator --hooks-dir hooks"})
		if err := r.operator.until("Hook failed. Will retry after delay."); err != nil {
			t.Fatal(err)
		}
	}
	typed := 0
	for _, b := range blocks(strings.NewReplacer(h.replace...).Replace(string(text))) {
		if wait, ok := strings.CutPrefix(b.mark, "wait: "); ok {
			if err := r.operator.until(wait); err != nil {
				t.Fatalf("line %d: waited for %q: %v", b.line, wait, err)
			}
		}
		switch {
		case strings.HasPrefix(b.mark, "untested: "):
		case strings.HasPrefix(b.text, "#!"): // a hook
			write(t, filepath.Join(dir, "hooks", "hook.sh"), b.text, 0o755)
		case b.language == "sh":
			typed++
			r.each(b)
		case b.language == "":
			r.sees(b)
		}
	}
	if typed == 0 {
		t.Error("the page has no commands")
	}
}

// each types a block whose lines may be several operators, one after the other. What make builds and the cluster are there.
func (r *reader) each(b block) {
	var rest []string
	for line := range strings.Lines(b.text) {
		switch {
		case strings.HasPrefix(line, "make "), strings.HasPrefix(line, "bin/testcluster start"):
		case stays.MatchString(line):
			one := b
			one.text = strings.Join(rest, "") + line
			rest = nil
			r.do(one)
			if !strings.Contains(line, "--kube-") {
				continue
			}
			// It is about the connection: see that there is one.
			if err := r.operator.until("Kubernetes bindings for hook are enabled successfully"); err != nil {
				r.t.Fatalf("line %d: %v\n%s", b.line, err, line)
			}
		default:
			rest = append(rest, line)
		}
	}
	if len(rest) > 0 {
		b.text = strings.Join(rest, "")
		r.do(b)
	}
}

// workingDirectory is like the top of the repository after make, with files of the reader.
func workingDirectory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bin", "hooks"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"bin/shell-operator": testenv.Binary(t), "bin/testcluster": filepath.Join(testenv.Root(), "bin", "testcluster"), "bin/tools": testenv.Tools(t),
		"examples": filepath.Join(testenv.Root(), "examples"), "deploy": filepath.Join(testenv.Root(), "deploy"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "hooks/") {
			mode = 0o755
		}
		write(t, filepath.Join(dir, name), text, mode)
	}
	return dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// freePort is one that nobody uses at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}
