package app

import (
	"context"
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
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// asker sends requests to the HTTP hooks of an operator.
type asker struct {
	t         *testing.T
	base      string
	transport *http.Transport
}

func askerOf(t *testing.T, op *testenv.Operator) *asker {
	t.Helper()
	a := &asker{t, "http://" + op.UntilLog("HTTP hooks are served").Fields["address"], &http.Transport{}}
	t.Cleanup(a.transport.CloseIdleConnections)
	return a
}

func (a *asker) ask(ctx context.Context, method, path string) (status int, body string, header http.Header, err error) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, a.base+path, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	w, err := a.transport.RoundTrip(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	return w.StatusCode, string(text), w.Header, err
}

func (a *asker) expect(status int, text, method, path string) http.Header {
	a.t.Helper()
	got, body, header, err := a.ask(a.t.Context(), method, path)
	if err != nil || got != status || !strings.Contains(body, text) || strings.Contains(body, "secret") {
		a.t.Errorf("%s %s: got %d %s %v, not %d %s", method, path, got, body, err, status, text)
	}
	return header
}

const thingsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// What a request brings about, in a real operator.
func TestHTTP(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	group := namespace + ".example.com"
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: "testdata/http", Kubeconfig: c.Kubeconfig, Env: []string{"NS=" + namespace, "GROUP=" + group},
	})
	a := askerOf(t, op)
	pages := "http://127.0.0.1:" + op.UntilLog("base http server started").Fields["port"]
	ready := &asker{t, pages, a.transport}

	// A snapshot whose kind is missing is empty, and no request waits for it.
	op.UntilLog("Enable Kubernetes binding for hook failed")
	a.expect(200, "[]", "GET", "/things")
	ready.expect(200, `hook "hook.sh" waits: binding "things": the API server knows no kind`, "GET", "/readyz")
	crd := strings.ReplaceAll(thingsCRD, "GROUP", group)
	c.KubectlInput(t, crd, "create", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", "crd", "things."+group, "--wait=false") })
	c.KubectlInput(t, crd, "wait", "--for=condition=established", "-f", "-")
	op.UntilLog("Kubernetes bindings for hook are enabled successfully")
	if header := a.expect(200, "[]", "GET", "/things"); header.Get("Content-Type") != "application/json" || len(header.Values("X-From")) != 2 {
		t.Errorf("headers: %v", header)
	}
	ready.expect(200, "ok", "GET", "/readyz")

	// Requested changes are applied before the response.
	a.expect(201, "made", "POST", "/effects/one")
	c.Kubectl(t, "-n", namespace, "get", "configmap", "one")
	ready.expect(200, `asked_total{hook="hook.sh"} 1`, "GET", "/metrics/hooks")
	// If it cannot be done, that is the answer.
	a.expect(500, "the hook failed; the log of the operator says why", "POST", "/effects/one")
	ready.expect(200, `asked_total{hook="hook.sh"} 1`, "GET", "/metrics/hooks")

	a.expect(500, "the hook failed", "GET", "/broken")
	op.Until("the error with its hint", func(records []testenv.Record) bool {
		for _, r := range records {
			if r.Has("The hook could not answer a request", "hook", "hook.sh", "binding", "broken", "route", "/broken") {
				return strings.Contains(r.Fields["error"], `$HTTP_RESPONSE_PATH names is not valid: the key "header" is not known: write for instance`)
			}
		}
		return false
	})
	a.expect(500, "the hook failed", "GET", "/fails")
	a.expect(504, "no answer in time", "GET", "/late")
	gone(t, sleeper(t, op, "late"))

	// A client that hangs up ends the hook and its children.
	hanging, hangUp := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, _, _, err := a.ask(hanging, "GET", "/hang")
		asked <- err
	}()
	pid := sleeper(t, op, "hang")
	hangUp()
	if err := <-asked; err == nil {
		t.Error("there was an answer")
	}
	op.UntilLog("The client has hung up, the run is ended", "binding", "hang")
	op.UntilLog("Hook interrupted", "binding", "hang")
	gone(t, pid)
}

// sleeper is the process id of the child that a run of a binding has started.
func sleeper(t *testing.T, op *testenv.Operator, binding string) string {
	t.Helper()
	pid := ""
	op.Until("the child of the hook", func(records []testenv.Record) bool {
		for _, r := range records {
			if r.Has("sleeper ", "binding", binding) {
				pid = strings.TrimPrefix(r.Fields["msg"], "sleeper ")
			}
		}
		return pid != ""
	})
	return pid
}

// gone polls until a process has ended or is a zombie: the kernel does not notify processes other than the parent.
func gone(t *testing.T, pid string) {
	t.Helper()
	for late := time.Now().Add(test.Patience); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("process %s lives on: %s", pid, stat)
		}
	}
}

// The rate limit of a hook applies; a request that would wait too long is rejected immediately.
func TestHTTPRate(t *testing.T) {
	c := testenv.Shared(t)
	a := askerOf(t, testenv.Start(t, testenv.OperatorOptions{HooksDir: "testdata/rate", Kubeconfig: c.Kubeconfig}))
	a.expect(204, "", "GET", "/")
	a.expect(204, "", "GET", "/")
	if header := a.expect(503, "too many requests", "GET", "/"); header.Get("Retry-After") == "" {
		t.Errorf("headers: %v", header)
	}
}

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
	askerOf(t, op).expect(200, "mine", "GET", "/")
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
