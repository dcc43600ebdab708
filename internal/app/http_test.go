package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// An error that prevents the start names the fix.
func TestHTTPRefused(t *testing.T) {
	c := testenv.Shared(t)
	for want, args := range map[string][]string{
		"without TLS: set --http-server-cert":                  {"--http-listen-address", "0.0.0.0"},
		`cannot read the HTTP certificate: open /no/such/file`: {"--http-server-cert", "/no/such/file", "--http-server-key", "/no/such/file"},
		"belong together: set both or none":                    {"--http-server-cert", "x"},
		"must be above 0":                                      {"--http-parallel", "0"},
	} {
		op := testenv.Start(t, testenv.OperatorOptions{HooksDir: "testdata/rate", Kubeconfig: c.Kubeconfig, Args: args, Status: 1})
		if status := op.Wait(); status != 1 || !strings.Contains(op.Errors.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, &op.Errors)
		}
		op.Signal(syscall.SIGTERM)
	}
}

// A process that a --config call leaves behind cannot have a port of the operator, whether the operator needs it or not.
func TestConfigCallsFindPortsTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the operator, which -short leaves out")
	}
	c := testenv.Memory(t)
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}
	dir, ports := t.TempDir(), []string{port(), port(), port()}
	const hook = `#!/bin/sh
if [ "$1" = --config ]; then
  for port in %s; do
    python3 -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' $port 2>>%s/errors
  done
  echo '{configVersion: v1, http: [{name: all, method: GET, path: /}]}'
  exit
fi
echo '{"status": 200, "body": "mine"}' >"$HTTP_RESPONSE_PATH"
`
	hooks, text := filepath.Join(dir, "hooks"), fmt.Sprintf(hook, strings.Join(ports, " "), dir)
	if err := errors.Join(os.Mkdir(hooks, 0o700), os.WriteFile(filepath.Join(hooks, "h.sh"), []byte(text), 0o700)); err != nil {
		t.Fatal(err)
	}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig, Args: []string{"--http-listen-port", ports[0],
		"--validating-webhook-listen-port", ports[1], "--conversion-webhook-listen-port", ports[2]}})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + op.UntilLog("HTTP hooks are served").Fields["address"])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(res.Body); string(text) != "mine" || res.Body.Close() != nil {
		t.Errorf("the response is %q, %v", text, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "errors")); strings.Count(string(got), "Address already in use") != len(ports) {
		t.Errorf("%v: the errors of the hook are\n%s", err, got)
	}
	for _, unused := range ports[1:] {
		l, err := net.Listen("tcp", "127.0.0.1:"+unused)
		if err != nil {
			t.Errorf("a port that no hook needs is held: %v", err)
			continue
		}
		l.Close()
	}
}
