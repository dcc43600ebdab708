package examples

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// client sends requests to the operator's HTTP hooks.
type client struct {
	e         *example
	base      string
	token     string
	transport *http.Transport
}

// client finds the operator.
func (e *example) client(trusts *x509.CertPool) *client {
	e.t.Helper()
	r := e.operator.UntilLog("HTTP hooks are served")
	c := &client{e: e, base: "https://" + r.Fields["address"], transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusts}}}
	e.t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// as is the same client with another token.
func (c *client) as(token string) *client {
	other := *c
	other.token = token
	return &other
}

// answer is the part of responses that the tests check.
type answer struct {
	Kind, Reason, Message string
	Code                  int
	Items                 []struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Replicas int
			Type     string
			Ports    []struct{ Port, NodePort int }
			Template struct {
				Spec struct{ Containers []struct{ Image string } }
			}
		}
	}
}

func (c *client) ask(method, path, body string) (int, answer) {
	c.e.t.Helper()
	r, err := http.NewRequestWithContext(c.e.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.e.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	w, err := c.transport.RoundTrip(r)
	if err != nil {
		c.e.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		c.e.t.Fatal(err)
	}
	var a answer
	if len(text) > 0 {
		if err := json.Unmarshal(text, &a); err != nil || w.Header.Get("Content-Type") != "application/json" {
			c.e.t.Errorf("%s %s: %d %s: %v", method, path, w.StatusCode, text, err)
		}
	}
	return w.StatusCode, a
}

// expect sends a request and checks the status.
func (c *client) expect(status int, method, path, body string) answer {
	c.e.t.Helper()
	got, a := c.ask(method, path, body)
	if got != status {
		c.e.t.Errorf("%s %s %s: got %d %+v, not %d", method, path, body, got, a, status)
	}
	return a
}

// refused expects an answer as the API server gives it.
func (c *client) refused(status int, reason, message, method, path, body string) {
	c.e.t.Helper()
	a := c.expect(status, method, path, body)
	if a.Kind != "Status" || a.Code != status || a.Reason != reason || !strings.Contains(a.Message, message) {
		c.e.t.Errorf("%s %s %s: got %+v", method, path, body, a)
	}
}

func (a answer) names() string {
	var names []string
	for _, item := range a.Items {
		names = append(names, item.Metadata.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// clusterAPIRoutes sends a request to every route.
func clusterAPIRoutes(c *client) {
	e := c.e
	c.expect(200, "HEAD", "/namespaces", "")
	if a := c.expect(200, "GET", "/nodes", ""); a.Kind != "NodeList" {
		e.t.Errorf("nodes: %+v", a)
	}
	if a := c.expect(200, "GET", "/namespaces", ""); a.Kind != "NamespaceList" || !slices.Contains(strings.Fields(a.names()), e.namespace) {
		e.t.Errorf("namespaces: %s", a.names())
	}
	in := "?ns=" + e.namespace
	if a := c.expect(200, "GET", "/deployments"+in, ""); a.Kind != "DeploymentList" || len(a.Items) > 0 {
		e.t.Errorf("no deployments yet: %+v", a)
	}

	// Five at a time.
	var creating sync.WaitGroup
	for i := range 5 {
		creating.Go(func() {
			status, a := c.ask("POST", "/deployments"+in, fmt.Sprintf(`{"name":"web-%d"}`, i))
			if status != 201 || len(a.Items) != 2 || a.Items[0].Spec.Replicas != 2 ||
				a.Items[0].Spec.Template.Spec.Containers[0].Image != "nginx:alpine" ||
				a.Items[1].Spec.Type != "NodePort" || a.Items[1].Spec.Ports[0].Port != 80 || a.Items[1].Spec.Ports[0].NodePort == 0 {
				e.t.Errorf("created: %d %+v", status, a)
			}
		})
	}
	creating.Wait()
	const five = "web-0 web-1 web-2 web-3 web-4"
	for _, path := range []string{"/deployments", "/services"} {
		if a := c.expect(200, "GET", path+in, ""); a.names() != five {
			e.t.Errorf("%s: %s", path, a.names())
		}
	}
	if a := c.expect(200, "GET", "/services", ""); !strings.Contains(a.names(), "kubernetes") || !strings.Contains(a.names(), "web-4") {
		e.t.Errorf("services of all namespaces: %s", a.names())
	}
	if a := c.expect(200, "GET", "/deployments", ""); !strings.Contains(a.names(), "web-4") {
		e.t.Errorf("deployments of all namespaces: %s", a.names())
	}
	e.kubectl("wait", "--for=jsonpath={.status.replicas}=2", "deployment/web-0", "--timeout=60s")

	c.refused(409, "AlreadyExists", `"web-0" already exists`, "POST", "/deployments"+in, `{"name":"web-0"}`)
	// A Service of this name is there: neither is made.
	e.kubectl("create", "service", "clusterip", "taken", "--tcp=80")
	c.refused(409, "AlreadyExists", `services "taken" already exists`, "POST", "/deployments"+in, `{"name":"taken"}`)
	e.kubectl("wait", "--for=delete", "deployment/taken", "--timeout=60s")
	c.refused(404, "NotFound", "not found", "POST", "/deployments?ns=no-such-namespace", `{"name":"web"}`)

	for i := range 5 {
		c.expect(200, "DELETE", fmt.Sprintf("/deployments/web-%d%s", i, in), "")
	}
	c.refused(404, "NotFound", `deployments.apps "web-0" not found`, "DELETE", "/deployments/web-0"+in, "")
	if a := c.expect(200, "GET", "/services"+in, ""); a.names() != "taken" {
		e.t.Errorf("services that are left: %s", a.names())
	}
	// Foreign objects stay.
	e.kubectl("create", "deployment", "other", "--image=nginx")
	c.refused(409, "Conflict", "was not made here", "DELETE", "/deployments/other"+in, "")
	c.refused(400, "BadRequest", "name", "DELETE", "/deployments/A"+in, "")
	c.refused(400, "BadRequest", "ns", "DELETE", "/deployments/a", "")
}

// With the credentials that a Pod has, TLS and authentication: only clients with permission are served.
func TestClusterAPI(t *testing.T) {
	testenv.Needs(t, "permissions: clients have different ones")
	e := prepare(t, "cluster-api")
	clients, err := os.ReadFile(filepath.Join("cluster-api", "manifests", "clients.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.input(string(clients), "apply", "-f", "-")
	tokens := map[string]string{}
	for _, name := range []string{"reader", "writer", "both", "stranger"} {
		e.kubectl("create", "serviceaccount", name)
		tokens[name] = strings.TrimSpace(e.kubectl("create", "token", name))
	}
	for _, right := range []string{"reader", "writer"} {
		name, accounts := e.namespace+"-"+right, "--serviceaccount="+e.namespace+":"
		e.kubectl("create", "clusterrolebinding", name, "--clusterrole=cluster-api-"+right, accounts+right, accounts+"both")
		t.Cleanup(func() { e.kubectl("delete", "clusterrolebinding", name) })
	}
	trusts := e.startInPod("--http-authentication")
	c := e.client(trusts)

	for _, token := range []string{"", "nonsense", tokens["reader"][:len(tokens["reader"])-4]} {
		for _, path := range []string{"/nodes", "/nothing"} {
			c.as(token).expect(401, "GET", path, "")
		}
	}
	reader, writer, stranger := c.as(tokens["reader"]), c.as(tokens["writer"]), c.as(tokens["stranger"])
	in := "?ns=" + e.namespace
	// The API server applies a new binding after a moment, and denials are cached for a while.
	e.patient("the reader's rights", func() bool { status, _ := reader.ask("GET", "/nodes", ""); return status == 200 })
	e.patient("the writer's rights", func() bool { status, _ := writer.ask("DELETE", "/deployments/none"+in, ""); return status == 404 })
	for _, path := range []string{"/nodes", "/namespaces", "/deployments", "/services"} {
		stranger.expect(403, "GET", path, "")
		writer.expect(403, "GET", path, "")
		reader.expect(200, "GET", path, "")
		reader.expect(200, "HEAD", path, "")
	}
	reader.expect(403, "POST", "/deployments"+in, `{"name":"web"}`)
	writer.expect(201, "POST", "/deployments"+in, `{"name":"web"}`)
	if a := reader.expect(200, "GET", "/services"+in, ""); a.names() != "web" {
		t.Errorf("services: %s", a.names())
	}
	reader.expect(403, "DELETE", "/deployments/web"+in, "")
	writer.expect(200, "DELETE", "/deployments/web"+in, "")
	clusterAPIRoutes(c.as(tokens["both"]))
	if n := e.failures(); n > 0 {
		t.Errorf("%d runs have failed", n)
	}
	for _, r := range e.operator.Records() {
		for _, token := range tokens {
			if strings.Contains(r.Text, token) {
				t.Errorf("a token is in the log: %s", r.Text)
			}
		}
	}

	// A missing permission of the operator's ServiceAccount is reported to the client with the reason.
	e.kubectl("patch", "clusterrole", "cluster-api", "--type=json", "-p", `[{"op": "remove", "path": "/rules/0"}]`)
	e.patient("the missing right", func() bool {
		status, a := reader.ask("GET", "/nodes", "")
		if status == 200 {
			return false
		}
		if status != 403 || a.Reason != "Forbidden" || a.Code != 403 || !strings.Contains(a.Message, `cannot list resource "nodes"`) {
			t.Errorf("got %d %+v", status, a)
		}
		return true
	})
}

// startInPod starts the operator with the environment of a Pod of the example's ServiceAccount: two variables, and files at a place
// that cannot be chosen. So it gets a file system of its own there. What it returns trusts the operator's certificate.
func (e *example) startInPod(args ...string) *x509.CertPool {
	e.t.Helper()
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		e.t.Skipf("no files can be put where a Pod has them: unshare -rm: %v %s", err, out)
	}
	dir := e.t.TempDir()
	account := filepath.Join(dir, "account")
	config := e.kubectl("config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			e.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // one of them is a script
			e.t.Fatal(err)
		}
		return path
	}
	write("account/namespace", e.namespace)
	write("account/token", strings.TrimSpace(e.kubectl("create", "token", e.name)))
	write("account/ca.crt", e.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o",
		`go-template={{index (index .clusters 0).cluster "certificate-authority-data" | base64decode}}`))
	// The shell's arguments: the program's, after where the files are and which program it is.
	program := write("operator", fmt.Sprintf(`#!/bin/sh
exec unshare -rm sh -c '
  mount -t tmpfs none /var/run
  mkdir -p /var/run/secrets/kubernetes.io
  cp -R "$1" /var/run/secrets/kubernetes.io/serviceaccount
  shift
  exec "$@"
' sh '%s' '%s' "$@"
`, account, testenv.Binary(e.t)))
	certificate := test.NewCertificate(e.t)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(config, "https://"))
	if err != nil {
		e.t.Fatal(err)
	}
	e.operator = testenv.Start(e.t, testenv.OperatorOptions{
		Binary: program, HooksDir: filepath.Join(e.name, "hooks"),
		Args: append(args, "--http-server-cert", write("tls.crt", string(certificate.CertPEM)),
			"--http-server-key", write("tls.key", string(certificate.KeyPEM))),
		Env: []string{"KUBECONFIG=", "HOME=" + dir, "KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port},
	})
	return certificate.Pool
}
