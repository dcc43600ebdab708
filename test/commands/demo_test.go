package commands

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// assets are programs with the names of those of envtest, made of the test cluster.
func assets(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		text := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$@\"\n", filepath.Join(test.Root(), "bin", "testcluster"), name)
		testenv.Script(t, dir, name, text)
	}
	return dir
}

// release is what setup-envtest fetches: an index, and an archive whose checksum is in it, or another one.
func release(t *testing.T, dir string, spoiled bool) *httptest.Server {
	t.Helper()
	var archive bytes.Buffer
	packed := gzip.NewWriter(&archive)
	w := tar.NewWriter(packed)
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	platform, err := exec.Command("go", "env", "GOOS", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := "envtest-v1.36.99-" + strings.Join(strings.Fields(string(platform)), "-") + ".tar.gz"
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	sum := sha512.Sum512(archive.Bytes())
	if spoiled {
		sum[0]++
	}
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases: {v1.36.99: {%s: {hash: %x, selfLink: '%s/archive'}}}\n", name, sum, server.URL)
	})
	mux.HandleFunc("/archive", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive.Bytes()) })
	return server
}

// TestDemo runs make demo in a copy of the repository in which no control plane is built, with binaries, with a download, and without both.
func TestDemo(t *testing.T) {
	if !test.Long() {
		t.Skip("it builds programs: run 'make long'. TestDev starts the same control plane")
	}
	testenv.Shared(t)
	binaries := assets(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	repository := t.TempDir()
	// The build takes minutes.
	stub := fmt.Sprintf("mkdir -p bin && ln -sf '%s' bin/testcluster", filepath.Join(test.Root(), "bin", "testcluster"))
	copied, err := exec.Command("bash", "-euo", "pipefail", "-c", `cd "$1" && (git ls-files && git ls-files -o --exclude-standard) |
		tar c -T - | tar x -C "$2" && cd "$2" && git init -q && printf '#!/bin/sh\n%s\n' "$3" >scripts/build-testcluster.sh`,
		"-", test.Root(), repository, stub).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, copied)
	}
	t.Run("memory", func(t *testing.T) {
		cmd := exec.Command("make", "demo")
		cmd.Dir, cmd.Env = repository, append(os.Environ(), "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "demo: an API server in memory, not Kubernetes") ||
			!strings.Contains(string(out), `{"data":{"title":"cart"},"name":"shop-cart","owner":"shop"}`) {
			t.Errorf("%v\n%s", err, out)
		}
		if left, err := os.ReadDir(valueIn(cmd.Env, "TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("it left %v, %v", left, err)
		}
	})
	for _, test := range []struct{ name, variable, says string }{
		{"assets", "KUBEBUILDER_ASSETS=" + binaries, "demo: uses etcd and kube-apiserver of KUBEBUILDER_ASSETS="},
		{"download", "ENVTEST_INDEX=" + release(t, binaries, false).URL + "/index.yaml",
			"demo: fetches etcd and kube-apiserver with setup-envtest"},
		{"checksum", "ENVTEST_INDEX=" + release(t, binaries, true).URL + "/index.yaml",
			"demo: builds the control plane, … the download failed (… checksum"},
		{"no network", "ENVTEST_INDEX=http://127.0.0.1:1/", "demo: builds the control plane, … connection refused"},
		{"no answer", "ENVTEST_INDEX=http://" + silent.Addr().String(), "demo: builds the control plane, … waits 5 s (it takes longer than 5 s)"},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(repository, "bin", "testcluster")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("make", "demo", "CONTROL_PLANE=real")
			cmd.Dir, cmd.Env = repository, append(os.Environ(), "XDG_DATA_HOME="+t.TempDir(), "TMPDIR="+t.TempDir(),
				"KUBEBUILDER_ASSETS=", test.variable)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "The output of the hook:\nPod 'web' added\n\nNext:\n   bin/shell-operator init") {
				t.Fatalf("%v\n%s", err, out)
			}
			want := strings.ReplaceAll(regexp.QuoteMeta(test.says), "…", ".*")
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("%q is not in the output\n%s", test.says, out)
			}
			if left, err := os.ReadDir(valueIn(cmd.Env, "TMPDIR")); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

func valueIn(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
