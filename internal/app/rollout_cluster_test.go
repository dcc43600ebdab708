package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// balancer sends new connections to one of several replicas, as a Service does; open ones stay where they are.
type balancer struct {
	listener net.Listener
	to       atomic.Value // an address
	open     sync.Map     // connections
}

func newBalancer(t *testing.T) *balancer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer client.Close()
				b.open.Store(client, nil)
				defer b.open.Delete(client)
				server, err := net.Dial("tcp", b.to.Load().(string))
				if err != nil {
					return
				}
				defer server.Close()
				connections.Go(func() {
					_, _ = io.Copy(server, client)
					_ = server.(*net.TCPConn).CloseWrite()
				})
				_, _ = io.Copy(client, server)
			})
		}
	})
	t.Cleanup(func() { listener.Close() })
	return b
}

// cut ends all connections, as when their replica is killed, and leads nowhere.
func (b *balancer) cut() {
	b.to.Store("127.0.0.1:1")
	b.open.Range(func(conn, _ any) bool {
		_ = conn.(net.Conn).Close()
		return true
	})
}

func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

// signer makes certificates of one CA.
type signer struct{ test.Certificate }

// write writes the next certificate for 127.0.0.1, with its key and the CA.
func (s signer) write(t *testing.T, dir string) {
	t.Helper()
	authority, err := x509.ParseCertificate(s.Certificate.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, key.Public(), s.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": s.CertPEM, "tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// behindBalancer is a whole operator behind balancers, which believes to be in a Pod.
type behindBalancer struct {
	log                   *test.Text
	admission, conversion string
	stop                  context.CancelFunc
	ended                 chan error
}

// noReplica matches why a call reached none: refused ones have a status or a problem of TLS.
var noReplica = regexp.MustCompile(`EOF|broken pipe|connection (refused|reset|lost|force closed)`)

var startedServer = regexp.MustCompile(`msg="webhook server started" address=(\S+)`)

func (r *behindBalancer) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := test.Receive(t, r.ended, "end of a replica"); err != nil {
		t.Error(err)
	}
}

// Under load with failurePolicy Fail, no review of the API server is refused and none is left out, and each object is converted, while
// certificate files and the Secret of paths are renewed, hooks are reloaded, and replicas are replaced by others. Directly
// after the restart of one that was killed, none is refused.
func TestNoReviewIsLost(t *testing.T) {
	perSecond := 20
	if test.Long() {
		perSecond = 50
	}
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	group, configuration := namespace+".example.com", "validatingwebhookconfiguration/"+namespace+"-hooks"
	crd := "things." + group
	version := `"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}`
	c.KubectlInput(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "`+crd+`"},
  "spec": {"group": "`+group+`", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [
    {"name": "v1", "served": true, "storage": true, `+version+`}, {"name": "v2", "served": true, "storage": false, `+version+`}]}}`,
		"create", "-f", "-")
	t.Cleanup(func() { c.Kubectl(t, "delete", configuration, "crd/"+crd, "--ignore-not-found", "--wait=false") })
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/"+crd)
	c.KubectlInput(t, `{"apiVersion": "`+group+`/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "`+namespace+`"}}`,
		"create", "-f", "-")

	hooks, files := t.TempDir(), t.TempDir()
	ca := signer{test.NewCertificate(t)}
	ca.write(t, files)
	writeHook := func(timeout int) {
		hookFile(t, hooks, "both.sh", denying(namespace)+fmt.Sprint("\n  timeoutSeconds: ", timeout)+`
kubernetesCustomResourceConversion:
- {name: convert, crdName: `+crd+`, conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2, toVersion: v1}]}`,
			`if grep -q Conversion "$BINDING_CONTEXT_PATH"; then
  sed -n 's|.*"objects":\(\[.*\]\).*|{"convertedObjects": \1}|; s|/v1"|/v2"|p' "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH"
else
  `+deny+`
fi`)
	}
	writeHook(10)
	admitting, converting := newBalancer(t), newBalancer(t)
	begin := func() *behindBalancer {
		ctx, stop := context.WithCancel(context.Background())
		r := &behindBalancer{log: &test.Text{}, stop: stop, ended: make(chan error, 1)}
		server := func(b *balancer) webhook.WebhookServer {
			return webhook.WebhookServer{ListenAddress: "127.0.0.1:0", URL: b.url(), FilesGiven: true, Cert: files + "/tls.crt",
				Key: files + "/tls.key", CA: files + "/ca.crt"}
		}
		sockets, err := os.MkdirTemp("", "operator-") // paths of sockets are limited
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(sockets) })
		o := Options{
			HooksDir: hooks, WatchHooks: true, TmpDir: filepath.Join(t.TempDir(), "tmp"), Env: os.Environ(),
			Log:           slog.New(slog.NewTextHandler(r.log, nil)),
			Cluster:       kube.Options{Kubeconfig: c.Kubeconfig, QPS: -1, Inside: true},
			ConfigTimeout: time.Minute, RetryMin: time.Second, RetryMax: time.Second, ShutdownTimeout: time.Minute,
			ListenAddress: "127.0.0.1:0", Metrics: MetricsOptions{Prefix: "shell_operator_"},
			Debug: DebugOptions{Level: &slog.LevelVar{}, Place: debug.Place{Socket: filepath.Join(sockets, "debug.socket"), Chosen: true}},
			Webhooks: webhook.WebhookOptions{Admission: server(admitting), Conversion: server(converting), ConfigurationName: namespace,
				FailurePolicy: "Fail", Namespace: namespace, SecretName: "certificates"},
		}
		go func() { r.ended <- Run(ctx, context.Background(), o) }()
		r.log.Until(t, "The CRD leads to the conversion hooks", 1) // then the hook is ready
		found := startedServer.FindAllStringSubmatch(r.log.String(), -1)
		r.admission, r.conversion = found[0][1], found[1][1]
		return r
	}
	lead := func(r *behindBalancer) { // as the endpoints of a Service
		admitting.to.Store(r.admission)
		converting.to.Store(r.conversion)
	}
	// The address must lead somewhere before the registration.
	admitting.cut()
	converting.cut()
	first := begin()
	lead(first)
	c.Kubectl(t, "wait", "--for=create", configuration, "--timeout=60s")
	client, err := kube.NewClient(c.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	review := func() error {
		_, err := kube.Send(t.Context(), client.Post().AbsPath("/api/v1/namespaces", namespace, "configmaps").Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body([]byte(`{"metadata": {"name": "a"}}`)).MaxRetries(0))
		if err == nil || !strings.Contains(err.Error(), "nothing is allowed here") {
			return fmt.Errorf("a review was left out or refused: %w", err)
		}
		return nil
	}
	convert := func() error {
		text, err := kube.Send(t.Context(), client.Get().AbsPath("/apis", group, "v2/namespaces", namespace, "things/a").MaxRetries(0))
		if err != nil || !strings.Contains(string(text), group+"/v2") {
			return fmt.Errorf("an object was not converted: %s, %w", text, err)
		}
		return nil
	}
	for late := time.Now().Add(20 * time.Second); review() != nil || convert() != nil; { // the API server follows registrations with a delay
		if time.Now().After(late) {
			t.Fatal(review(), convert(), first.log)
		}
	}

	var sent, failed atomic.Int64
	// outage is odd while no replica is there.
	var outage atomic.Int64
	answered := make(chan struct{}, 10_000)
	var asking sync.WaitGroup
	loaded, end := context.WithCancel(t.Context())
	load := func(during string, change func()) {
		t.Helper()
		before, lost := sent.Load(), failed.Load()
		change()
		for len(answered) > 0 {
			<-answered
		}
		for range 2 * perSecond { // and one second of load
			test.Receive(t, answered, "answer")
		}
		t.Logf("%s: %d reviews and conversions, %d failed", during, sent.Load()-before, failed.Load()-lost)
	}
	asking.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		asked := make(chan struct{}, perSecond/2) // a machine that is slower gets fewer: the hooks may refuse what they cannot do
		for loaded.Err() == nil {
			<-tick.C
			for _, f := range []func() error{review, convert} {
				asked <- struct{}{}
				asking.Go(func() {
					defer func() { <-asked }()
					began := outage.Load()
					err := f()
					without := began%2 == 1 || outage.Load() != began
					if err != nil && !(without && noReplica.MatchString(err.Error())) && failed.Add(1) < 10 {
						t.Errorf("%s: %v", time.Now().Format(time.TimeOnly+".000"), err)
					}
					sent.Add(1)
					select {
					case answered <- struct{}{}:
					default:
					}
				})
			}
		}
	})
	load("renewal of certificate files", func() {
		ca.write(t, files)
		first.log.Until(t, "The webhook certificate was reloaded", 2)
	})
	load("renewal of the Secret", func() {
		path := func() string {
			return c.Kubectl(t, "get", configuration, "-o", "jsonpath={.webhooks[0].clientConfig.url}")
		}
		old := path()
		c.Kubectl(t, "-n", namespace, "patch", "secret", "certificates", "--type=json", "-p",
			`[{"op": "move", "from": "/data/path.secret", "path": "/data/path.previous"}]`)
		first.log.Until(t, "there is no secret of the paths", 2)
		first.log.Until(t, "Webhooks are registered again", 1)
		if path() == old {
			t.Error("the path is the same")
		}
	})
	load("reload", func() {
		writeHook(11)
		first.log.Until(t, "Hooks are reloaded", 1)
	})
	last := first
	for i := range 2 {
		load(fmt.Sprintf("rollout %d", i+1), func() {
			next := begin()
			lead(next)
			last.end(t)
			last = next
		})
	}
	load("restart after a kill", func() { // what fails meanwhile has no replica; nothing is refused before or afterwards
		outage.Add(1)
		admitting.cut()
		converting.cut()
		next := begin()
		lead(next)
		outage.Add(1)
		last.end(t)
		last = next
	})
	end()
	asking.Wait()
	last.end(t)
	t.Logf("%d in total, %d failed", sent.Load(), failed.Load())
}
