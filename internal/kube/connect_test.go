package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// An address is enough, as with kubectl --server: kubectl proxy needs no credentials.
func TestConnectByServerAlone(t *testing.T) {
	asked := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer proxy.Close()
	emptyContext := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://elsewhere'}}]\n"
	if err := os.WriteFile(emptyContext, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, kubeconfig := range map[string]string{"no kubeconfig": "/nonexistent", "no current context": emptyContext} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", kubeconfig)
			cl, err := Connect(Options{Server: proxy.URL}, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			path, ok := strings.CutPrefix(strings.Join(cl.Env, " "), "KUBECONFIG=")
			if !ok {
				t.Fatalf("hooks get %q", cl.Env)
			}
			ofHooks, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			asked = 0
			client, err := NewClient(cl.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Send(t.Context(), client.Get().AbsPath("/version")); err != nil || asked != 1 || ofHooks.Host != proxy.URL {
				t.Errorf("%v; %d requests; hooks reach %s", err, asked, ofHooks.Host)
			}
		})
	}
}

// TestConnectWithAnotherFile: the error about a file that is no kubeconfig has no words of Go.
func TestConnectWithAnotherFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(file, []byte("root:x:0:0:root:/root:/bin/bash\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Connect(Options{Kubeconfig: file}, t.TempDir())
	want := fmt.Sprintf("cannot read the kubeconfig: error loading config file %q: it is no kubeconfig: check --kube-config "+
		"(KUBE_CONFIG) and $KUBECONFIG", file)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
