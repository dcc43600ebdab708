package tutorial

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// page is a page of docs, and what its reader has before beginning.
type page struct {
	// name is its path below docs.
	name string
	// files are those of the working directory; the ones in hooks are executable.
	files map[string]string
	// before are commands that make what the page takes for granted; running is an operator that runs already. until is what
	// it prints when it is ready; without one, what the last operator of the page prints before it is stopped.
	before, running, until string
	// meanwhile are commands while that operator runs, then is what it prints because of them.
	meanwhile, then string
	// hook is the name of the file for hooks that the page shows; hook.sh by default.
	hook string
	// parts are what the parts of hooks on the page are put into, in their order.
	parts []part
	// replace changes words of the page into those that are true here.
	replace []string
	// after are commands that see that it has worked.
	after string
}

// part is a hook around what a page shows of it.
type part struct {
	// hook has %s where the shown lines go.
	hook string
	// context is the file that $BINDING_CONTEXT_PATH names.
	context string
	// want is a part of what shell-operator run tells of the run, as JSON.
	want string
}

// leftOut is a block that cannot be typed here, by page and beginning.
type leftOut struct{ page, begins, why string }

var cannot = []leftOut{
	{"../README.md", "make demo", "scripts/demo.sh types what the tutorial does, and make test is what runs this"},
	{"how-to/build-your-own-image.md", "make image-shell", "there is no container engine; the workflow ci runs both"},
	{"how-to/build-your-own-image.md", "make image\n", "it takes minutes; tools/image does it all with a registry of its own"},
	{"how-to/check-hooks.md", "docker run", "there is no Docker; the command itself is typed on this page without it"},
	{"how-to/find-out-why-a-hook-does-not-run.md", "$ kubectl exec", "the cluster has no nodes; test/insight makes this answer"},
	{"how-to/install-with-helm.md", "kubectl -n my-operator logs", "the cluster has no nodes, so no Pod runs"},
	{"how-to/monitor-the-operator.md", "scrape_configs:", "there is no Prometheus; test/scrape reads both pages as it does"},
	{"how-to/monitor-the-operator.md", "apiVersion: monitoring.coreos.com", "there is no Prometheus operator"},
	{"how-to/monitor-the-operator.md", "$ kubectl describe pod", "the cluster has no nodes; internal/telemetry/kubeevent writes these Events in its tests"},
	{"../examples/cluster-api/README.md", "curl --cacert", "it is typed in a Pod, and the cluster has no nodes"},
	{"../examples/mysql-database/README.md", "CREATE USER", "the stand-in for MySQL has one user"},
	{"how-to/trace-runs.md", "docker run", "there is no Docker; the test has a receiver of its own"},
	{"how-to/trace-runs.md", "otel-cli", "there is no otel-cli, and the host is somebody else's"},
}

// lineLeftOut is the beginning of a line that cannot be typed here, on whatever page.
type lineLeftOut struct{ begins, why string }

var cannotLines = []lineLeftOut{
	{"docker build", "there is no Docker"},
	{"kubectl logs", "the cluster has no nodes, so no Pod has a log"},
	{"kubectl port-forward", "the cluster has no nodes, so no Pod has a port"},
}

// follow does what the page says.
func (p page) follow(t *testing.T, cluster *testenv.Cluster) {
	dir := workingDirectory(t, p.files)
	sockets, err := os.MkdirTemp("", "how-to-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config, err := os.ReadFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, kubeconfig, string(config), 0o600)
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", p.name))
	if err != nil {
		t.Fatal(err)
	}
	metrics, web := freePort(t), freePort(t)
	replace := strings.NewReplacer(append(p.replace, "127.0.0.1:9115", "127.0.0.1:"+metrics, "localhost:9115", "127.0.0.1:"+metrics, "127.0.0.1:9690", "127.0.0.1:"+web, "/var/run/shell-operator/debug.socket", filepath.Join(sockets, "socket"))...)
	f := &follower{page: p, cluster: cluster, reader: &reader{t: t, dir: dir, env: append(os.Environ(),
		"PATH="+dir+"/bin:"+dir+"/bin/tools:"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "PYTHONDONTWRITEBYTECODE=1",
		"SHELL_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT="+metrics, "SHELL_OPERATOR_TMP_DIR="+filepath.Join(t.TempDir(), "tmp"),
		"VALIDATING_WEBHOOK_LISTEN_ADDRESS=127.0.0.1", "VALIDATING_WEBHOOK_LISTEN_PORT=0",
		"CONVERSION_WEBHOOK_LISTEN_ADDRESS=127.0.0.1", "CONVERSION_WEBHOOK_LISTEN_PORT=0",
		"SHELL_OPERATOR_HTTP_LISTEN_PORT="+web, "DEBUG_UNIX_SOCKET="+filepath.Join(sockets, "socket"))}}
	defer func() {
		f.stop(f.operator)
		f.stop(f.server)
		if t.Failed() && f.operator != nil {
			printed, _ := f.operator.printed()
			t.Logf("the last operator printed:\n%s", printed)
		}
	}()
	if p.before != "" {
		f.do(pages.Block{Text: p.before})
	}
	if p.running != "" {
		f.do(pages.Block{Text: p.running})
		if err := f.operator.until(p.until); err != nil {
			t.Fatal(err)
		}
	}
	if p.meanwhile != "" {
		f.do(pages.Block{Text: p.meanwhile})
		if err := f.operator.until(p.then); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range pages.Blocks(replace.Replace(string(text))) {
		f.block(b)
	}
	if p.running == "" && p.until != "" {
		if err := f.operator.until(p.until); err != nil {
			t.Errorf("the end of the page: waited for %q: %v", p.until, err)
		}
	}
	if p.after != "" {
		f.each(pages.Block{Text: replace.Replace(p.after)})
	}
	if f.done == 0 {
		t.Error("nothing on the page was done")
	}
	if f.parts != len(p.parts) {
		t.Errorf("the page has %d parts of hooks, the table %d", f.parts, len(p.parts))
	}
	for _, c := range cannot {
		if c.page == p.name && !f.left[c.begins] {
			t.Errorf("the page has no block that begins with %q: take it from the list of what cannot be typed", c.begins)
		}
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
	links := map[string]string{
		"bin/shell-operator": testenv.Binary(t), "bin/testcluster": filepath.Join(testenv.Root(), "bin", "testcluster"), "bin/tools": testenv.Tools(t),
	}
	for _, name := range []string{"examples", "deploy", "sdk"} {
		links[name] = filepath.Join(testenv.Root(), name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "bin", "helm"), helm, 0o755)
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
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
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
