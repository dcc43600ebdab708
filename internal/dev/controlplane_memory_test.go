package dev_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
)

// TestInMemory: a second server has a port of its own, the kubeconfig is all that a server writes, and one that cannot be written ends it.
func TestInMemory(t *testing.T) {
	run := func(dir string, do func()) error {
		o := dev.ControlPlane{Path: dev.InMemory, Dir: dir}
		return o.Run(t.Context(), t.Context(), func(context.Context) error { do(); return nil })
	}
	first, second := t.TempDir(), t.TempDir()
	err := run(first, func() {
		if err := run(second, func() {}); err != nil {
			t.Error(err)
		}
	})
	one, _ := os.ReadFile(first + "/kubeconfig")
	other, _ := os.ReadFile(second + "/kubeconfig")
	if files, _ := os.ReadDir(first); err != nil || len(files) != 1 || string(one) == string(other) {
		t.Errorf("%v, %v\n%s\n%s", err, files, one, other)
	}
	third := t.TempDir()
	if err := run(third, func() { stranger(t, third) }); err != nil {
		t.Error(err)
	}
	full := t.TempDir()
	if err := os.Symlink("/dev/full", full+"/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	err = run(full, func() { t.Error("it runs without its kubeconfig") })
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "cannot write the kubeconfig of the API server in memory: ") {
		t.Error(err)
	}
}

// TestLoadExamples creates what init writes; it leaves out a fixture with another version of an object, and a file without a manifest.
func TestLoadExamples(t *testing.T) {
	private, root := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"manifests/crd.yaml": `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: sites.example.com},
  spec: {group: example.com, scope: Namespaced, names: {kind: Site, plural: sites}, versions: [{name: v1, served: true, storage: true}]}}`,
		"hooks/fixtures/a.yaml":      "{apiVersion: example.com/v1, kind: Site, metadata: {name: a}}",
		"hooks/fixtures/a-2.yaml":    "{apiVersion: example.com/v1, kind: Site, metadata: {name: a}, spec: {}}",
		"hooks/fixtures/values.yaml": "[1, 2]",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o := dev.ControlPlane{Path: dev.InMemory, Dir: private}
	err := o.Run(t.Context(), t.Context(), func(ctx context.Context) error {
		n, from, err := dev.LoadExamples(ctx, kube.Options{Kubeconfig: o.Kubeconfig()}, filepath.Join(root, "hooks"), private)
		if n != 2 || len(from) != 2 {
			t.Errorf("%d objects of %q", n, from)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stranger sends headers without the token of a kubeconfig: the memory that they take is bounded.
func stranger(t *testing.T, dir string) {
	config, err := clientcmd.LoadFromFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(config.Clusters["testcluster"].Server)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", address.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(test.Patience))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("a:\r\n", 200))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(res.Status)
	}
}
