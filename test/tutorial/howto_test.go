package tutorial

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// world is what pages are followed in.
type world struct {
	cluster *testenv.Cluster
	// server and receiver are the addresses of the API server and of a receiver of traces.
	server, receiver string
}

var (
	replacement = regexp.MustCompile(`(?m)^<!-- replace: (.*) => (.*) -->$`)
	needs       = regexp.MustCompile(`(?s)<!-- needs: \S+ -->\n.*?\n## `)
)

// follow runs the blocks of a page of the repository.
func (w world) follow(t *testing.T, page string) {
	if reason := notInMemory[page]; reason != "" {
		testenv.Needs(t, reason)
	}
	dir := workingDirectory(t)
	sockets, err := os.MkdirTemp("", "how-to-") // short: paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config, err := os.ReadFile(w.cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, kubeconfig, string(config), 0o600)
	text, err := os.ReadFile(filepath.Join(test.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	metrics, web := freePort(t), freePort(t)
	var replace []string
	for _, m := range replacement.FindAllStringSubmatch(string(text), -1) {
		replace = append(replace, m[1], strings.ReplaceAll(m[2], `\n`, "\n"))
	}
	replace = append(replace,
		"127.0.0.1:9115", "127.0.0.1:"+metrics, "localhost:9115", "127.0.0.1:"+metrics, "127.0.0.1:9690", "127.0.0.1:"+web,
		"/var/run/shell-operator/debug.socket", filepath.Join(sockets, "socket"), "/tmp/cluster/kubeconfig", "$PWD/kubeconfig",
		"/tmp/cluster/", w.cluster.Dir+"/",
		"127.0.0.1:4317", w.receiver, "http://127.0.0.1:8001", w.server, "MYSQL_PORT=3306", "MYSQL_PORT="+freePort(t), "SHOP_PORT=8088",
		"SHOP_PORT="+freePort(t))
	f := &follower{cluster: w.cluster, reader: &reader{t: t, dir: dir, before: testenv.KubectlFunction(t), env: append(os.Environ(),
		"PATH="+dir+"/bin:"+dir+"/bin/tools:"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "PYTHONDONTWRITEBYTECODE=1",
		"SHELL_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "SHELL_OPERATOR_LISTEN_PORT="+metrics, "SHELL_OPERATOR_TMP_DIR="+
			filepath.Join(t.TempDir(), "tmp"),
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
	page = needs.ReplaceAllStringFunc(strings.NewReplacer(replace...).Replace(string(text)), func(section string) string {
		if _, err := exec.LookPath(strings.Fields(section)[2]); err != nil {
			return "## "
		}
		return section
	})
	for _, b := range pages.Blocks(page) {
		f.block(b)
	}
}

// workingDirectory is like the top of the repository after make.
func workingDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bin", "hooks"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{
		"bin/shell-operator": testenv.Binary(t), "bin/testcluster": filepath.Join(test.Root(), "bin", "testcluster"),
		"bin/tools": test.Tools(t), "bin/helm": filepath.Join(test.Root(), "test", "tutorial", "testdata", "helm"),
	}
	for _, name := range []string{"examples", "deploy", "sdk"} {
		links[name] = filepath.Join(test.Root(), name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
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

// freePort is a port that is currently unused, and that no other program gets by asking for any port: those are 32768 and above.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := fmt.Sprint(20000 + rand.IntN(12000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
}
