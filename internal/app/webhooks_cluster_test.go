package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// hookFile writes a hook that prints its configuration, and otherwise does what the lines say.
func hookFile(t *testing.T, dir, name, config, lines string) {
	t.Helper()
	text := "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'END'\n" + config + "\nEND\nexit\nfi\n" + lines + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// denying is the configuration of a hook that reviews ConfigMaps of a namespace.
func denying(namespace string) string {
	return `configVersion: v1
kubernetesValidating:
- name: deny.example.com
  namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: ` + namespace + `}}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]`
}

const deny = `echo '{"allowed": false, "message": "nothing is allowed here"}' > $ADMISSION_RESPONSE_PATH`

// certificateFiles writes a pair for 127.0.0.1 as cert-manager does, without the CA, which is returned.
func certificateFiles(t *testing.T, dir string) []byte {
	t.Helper()
	certificate := test.NewCertificate(t)
	for name, text := range map[string][]byte{"tls.crt": certificate.CertPEM, "tls.key": certificate.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate.CertPEM
}

// The test is cert-manager's CA injector: it writes caBundle, which the operator leaves alone whatever else it restores.
func TestCertManager(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	configuration := "validatingwebhookconfiguration/" + namespace + "-hooks"
	crd := "crd/things." + namespace + ".example.com"
	t.Cleanup(func() { c.Kubectl(t, "delete", configuration, crd, "--ignore-not-found") })
	c.KubectlInput(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.`+namespace+
		`.example.com"},
  "spec": {"group": "`+namespace+`.example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things",
    "singular": "thing"}, "versions": [
    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
      "x-kubernetes-preserve-unknown-fields": true}}},
    {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
      "x-kubernetes-preserve-unknown-fields": true}}}]}}`, "create", "-f", "-")

	hooks, files := t.TempDir(), t.TempDir()
	ca := certificateFiles(t, files)
	hookFile(t, hooks, "deny.sh", denying(namespace), deny)
	hookFile(t, hooks, "convert.sh", `configVersion: v1
kubernetesCustomResourceConversion:
- {name: convert, crdName: things.`+namespace+`.example.com, conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2,
  toVersion: v1}]}`,
		`echo '{"failedMessage": "nothing can be converted here"}' > $CONVERSION_RESPONSE_PATH`)
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig, Args: []string{
		"--webhook-cert-manager", "security/webhooks", "--validating-webhook-configuration-name", namespace,
		"--validating-webhook-server-cert", files + "/tls.crt", "--validating-webhook-server-key", files + "/tls.key",
		"--conversion-webhook-server-cert", files + "/tls.crt", "--conversion-webhook-server-key", files + "/tls.key",
	}})
	op.UntilLog("Webhooks are registered", "kind", "ValidatingWebhookConfiguration")
	op.UntilLog("The CRD leads to the conversion hooks now")

	const annotation = `{.metadata.annotations.cert-manager\.io/inject-ca-from}`
	bundles := map[string]string{configuration: "{.webhooks[0].clientConfig.caBundle}",
		crd: "{.spec.conversion.webhook.clientConfig.caBundle}"}
	paths := map[string]string{configuration: "/webhooks/0/clientConfig/caBundle", crd: "/spec/conversion/webhook/clientConfig/caBundle"}
	encoded := base64.StdEncoding.EncodeToString(ca)
	for object, path := range paths {
		if got := c.Kubectl(t, "get", object, "-o", "jsonpath="+annotation+" "+bundles[object]); got != "security/webhooks " {
			t.Errorf("%s was registered with %q", object, got)
		}
		c.Kubectl(t, "patch", object, "--type=json", "-p", `[{"op": "add", "path": "`+path+`", "value": "`+encoded+`"}]`)
	}

	// The API server receives the change with a delay. Until then it rejects the certificate.
	untilSaid := func(want, manifest string) {
		t.Helper()
		deadline := time.Now().Add(test.Patience)
		for {
			out, err := c.TryKubectl(manifest, "-n", namespace, "create", "-f", "-", "--dry-run=server")
			switch {
			case err != nil && strings.Contains(out, want):
				return
			case time.Now().After(deadline):
				t.Fatalf("waited for %q, the last answer is %s", want, out)
			}
		}
	}
	untilSaid("nothing is allowed here", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}`)
	untilSaid("nothing can be converted here", `{"apiVersion": "`+namespace+`.example.com/v2", "kind": "Thing", "metadata": {"name": "one"}}`)

	// Drift made by another client is repaired.
	c.Kubectl(t, "patch", configuration, "--type=json", "-p", `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`)
	op.UntilLog("Webhooks are registered again")
	c.Kubectl(t, "patch", crd, "--type=merge", "-p", `{"spec": {"conversion": {"webhook": {"conversionReviewVersions": ["v1"]}}}}`)
	op.UntilLog("Another client changed spec.conversion of the CRD")
	for object := range paths {
		if got := c.Kubectl(t, "get", object, "-o", "jsonpath="+annotation+" "+bundles[object]); got != "security/webhooks "+encoded {
			t.Errorf("%s has %q now", object, got)
		}
	}
	// It was written for no other reason, above all not because of the injector.
	for _, message := range []string{"Webhooks are registered again", "Another client changed spec.conversion of the CRD",
		"The CRD has the new certificates"} {
		times := 0
		for _, r := range op.Records() {
			if r.Has(message) {
				times++
			}
		}
		if want := map[bool]int{true: 0, false: 1}[message == "The CRD has the new certificates"]; times != want {
			t.Errorf("%d records %q, want %d", times, message, want)
		}
	}
	op.UntilLog("complete", "operator.component", "admissionWebhook", "http_method", "POST", "resp_status", "200")
	op.UntilLog("complete", "operator.component", "conversionWebhook", "http_method", "POST", "resp_status", "200")
}

func TestCertManagerNeedsFiles(t *testing.T) {
	c := testenv.Shared(t)
	hooks := t.TempDir()
	hookFile(t, hooks, "deny.sh", denying("none"), deny)
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig,
		Args: []string{"--webhook-cert-manager", "security/webhooks"}, Status: 1})
	op.Wait()
	if got := op.Errors.String(); !strings.Contains(got,
		`with --webhook-cert-manager the certificates are those of cert-manager: cannot read the webhook certificate: there is no file `+
			`"/validating-certs/tls.crt"`) {
		t.Error(got)
	}
}

// testReplica is a whole operator that believes to be in a Pod.
type testReplica struct {
	options Options
	address string
	stop    context.CancelFunc
	ended   chan error
}

func startReplica(t *testing.T, c *testenv.Cluster, namespace, hooks string) *testReplica {
	reader, writer := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	r := &testReplica{stop: stop, ended: make(chan error, 1)}
	server := webhook.WebhookServer{ListenAddress: "127.0.0.1:0", ServiceName: "webhooks", Cert: "/no/such/file"}
	sockets, err := os.MkdirTemp("", "operator-") // paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o := Options{
		HooksDir: hooks, TmpDir: filepath.Join(t.TempDir(), "tmp"), Env: os.Environ(), Log: slog.New(slog.NewJSONHandler(writer, nil)),
		Cluster:       kube.Options{Kubeconfig: c.Kubeconfig, QPS: -1, Inside: true},
		ConfigTimeout: time.Minute, RetryMin: time.Second, RetryMax: time.Second, ShutdownTimeout: 10 * time.Second,
		ListenAddress: "127.0.0.1:0", Metrics: MetricsOptions{Prefix: "shell_operator_"},
		Debug: DebugOptions{Level: &slog.LevelVar{}, Socket: filepath.Join(sockets, "debug.socket"), SocketChosen: true},
		Webhooks: webhook.WebhookOptions{
			Admission: server, Conversion: server, ConfigurationName: namespace, FailurePolicy: "Fail", Namespace: namespace,
			SecretName: "certificates",
		},
	}
	r.options = o
	go func() {
		r.ended <- Run(ctx, context.Background(), o)
		writer.Close()
	}()
	records := json.NewDecoder(reader)
	for r.address == "" {
		var record struct{ Msg, Address string }
		if err := records.Decode(&record); err != nil {
			t.Errorf("%v: the operator ended: %v", err, <-r.ended)
			return nil
		}
		if record.Msg == "webhook server started" {
			r.address = record.Address
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return r
}

// Two operators that start concurrently behind one Service agree on one CA, and the API server can call both.
func TestTwoReplicas(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	configuration := "validatingwebhookconfiguration/" + namespace + "-hooks"
	t.Cleanup(func() { c.Kubectl(t, "delete", configuration, "--ignore-not-found") })
	hooks := t.TempDir()
	hookFile(t, hooks, "deny.sh", denying(namespace), deny)
	replicas := make([]*testReplica, 2)
	started := make(chan int)
	for i := range replicas {
		go func() {
			replicas[i] = startReplica(t, c, namespace, hooks)
			started <- i
		}()
	}
	for range replicas {
		<-started
	}
	if t.Failed() {
		return
	}
	c.Kubectl(t, "wait", "--for=create", configuration, "--timeout=60s")
	bundle, err := base64.StdEncoding.DecodeString(c.Kubectl(t, "get", configuration, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(bundle, []byte("BEGIN CERTIFICATE")); n != 1 {
		t.Errorf("there are %d CAs", n)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	path := c.Kubectl(t, "get", configuration, "-o", "jsonpath={.webhooks[0].clientConfig.service.path}")
	for i, r := range replicas {
		if got := ask(t, r.address, "webhooks."+namespace+".svc", path, roots); !strings.Contains(got, "nothing is allowed here") {
			t.Errorf("replica %d answers %s", i, got)
		}
	}
	for _, r := range replicas {
		r.stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	}
	o := replicas[0].options
	cl, err := kube.Connect(o.Cluster, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Uninstall(t.Context(), webhook.Options{Cluster: cl, Webhooks: o.Webhooks, Log: slog.New(slog.DiscardHandler)}); err !=
		nil {
		t.Error(err)
	}
	if got := c.Kubectl(t, "-n", namespace, "get", configuration, "--ignore-not-found"); got != "" {
		t.Errorf("this was not uninstalled: %s", got)
	}
}

// What an operator outside a cluster leaves behind when it is killed is removed with the flags of its start. A
// configuration of a Service stays.
func TestUninstallOutside(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	configuration := "validatingwebhookconfiguration/" + namespace + "-hooks"
	t.Cleanup(func() { c.Kubectl(t, "delete", configuration, "--ignore-not-found") })
	hooks := t.TempDir()
	hookFile(t, hooks, "deny.sh", denying(namespace), deny)
	flags := []string{"--kube-config", c.Kubeconfig, "--hooks-dir", hooks, "--validating-webhook-configuration-name", namespace,
		"--validating-webhook-listen-address", "127.0.0.1", "--validating-webhook-listen-port", "0"}
	op := testenv.Start(t, testenv.OperatorOptions{HooksDir: hooks, Kubeconfig: c.Kubeconfig, Args: flags, Status: -1})
	op.UntilLog("Webhooks are registered", "kind", "ValidatingWebhookConfiguration")
	op.Signal(syscall.SIGKILL)
	op.Wait()
	uninstall := func() {
		t.Helper()
		if out, err := exec.Command(testenv.Binary(t), append([]string{"uninstall-webhooks"}, flags...)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	uninstall()
	if got := c.Kubectl(t, "get", configuration, "--ignore-not-found"); got != "" {
		t.Errorf("this was not uninstalled: %s", got)
	}
	c.KubectlInput(t, `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
  "metadata": {"name": "`+namespace+`-hooks", "labels": {"app.kubernetes.io/managed-by": "shell-operator"}},
  "webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
    "clientConfig": {"service": {"name": "shell-operator-validating-service", "namespace": "`+namespace+`",
      "path": "/hooks/validating/a/b"}}}]}`, "create", "-f", "-")
	uninstall()
	if got := c.Kubectl(t, "get", configuration, "--ignore-not-found"); got == "" {
		t.Error("a configuration of a Service was uninstalled without --namespace")
	}
}

// ask sends a review to one of the replicas, as the API server would.
func ask(t *testing.T, address, name, path string, roots *x509.CertPool) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}}}
	res, err := client.Post("https://"+address+path, "application/json",
		strings.NewReader(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE", `+
			`"object": {}}}`))
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
