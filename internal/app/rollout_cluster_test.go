package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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

// deployment is where replicas of an operator run, one after the other or side by side.
type deployment struct {
	c *testenv.Cluster
	testenv.Reviews
	files                 string // the directory of certificates that ca signs
	ca                    test.Certificate
	admitting, converting *testenv.Balancer
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	c := testenv.Shared(t)
	client, err := kube.NewClient(c.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{c: c, files: t.TempDir(), ca: test.NewCertificate(t)}
	d.Things, d.Client, d.admitting, d.converting = testenv.NewThings(t, c), client, testenv.NewBalancer(t), testenv.NewBalancer(t)
	d.ca.WriteSigned(t, d.files)
	return d
}

// begin starts a replica. The options are more ones.
func (d *deployment) begin(t *testing.T, o Options) *behindBalancer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &behindBalancer{log: &test.Text{}, stop: stop, ended: make(chan error, 1)}
	server := func(b *testenv.Balancer) webhook.WebhookServer {
		return webhook.WebhookServer{ListenAddress: "127.0.0.1:0", URL: b.URL(), FilesGiven: true, Cert: d.files + "/tls.crt",
			Key: d.files + "/tls.key", CA: d.files + "/ca.crt"}
	}
	sockets, err := os.MkdirTemp("", "operator-") // paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	o.TmpDir, o.Env, o.Log = filepath.Join(t.TempDir(), "tmp"), os.Environ(), slog.New(slog.NewTextHandler(r.log, nil))
	o.Cluster = kube.Options{Kubeconfig: cmp.Or(o.Cluster.Kubeconfig, d.c.Kubeconfig), QPS: -1, Inside: true}
	o.ConfigTimeout, o.RetryMin, o.RetryMax, o.ShutdownTimeout = time.Minute, time.Second, time.Second, time.Minute
	o.ListenAddress, o.Metrics = "127.0.0.1:0", MetricsOptions{Prefix: "shell_operator_"}
	o.Debug = DebugOptions{Level: &slog.LevelVar{}, Place: debug.Place{Socket: filepath.Join(sockets, "debug.socket"), Chosen: true}}
	o.Webhooks = webhook.WebhookOptions{Admission: server(d.admitting), Conversion: server(d.converting), ConfigurationName: d.Namespace,
		FailurePolicy: "Fail", Namespace: d.Namespace, SecretName: "certificates"}
	go func() { r.ended <- Run(ctx, context.Background(), o) }()
	return r
}

// addresses waits for both servers of webhooks.
func (r *behindBalancer) addresses(t *testing.T) {
	t.Helper()
	r.log.Until(t, `msg="webhook server started"`, 2)
	found := startedServer.FindAllStringSubmatch(r.log.String(), -1)
	r.admission, r.conversion = found[0][1], found[1][1]
}

// lead sends new connections to replicas, as the endpoints of a Service do.
func (d *deployment) lead(replicas ...*behindBalancer) {
	var admission, conversion []string
	for _, r := range replicas {
		admission, conversion = append(admission, r.admission), append(conversion, r.conversion)
	}
	d.admitting.Lead(admission...)
	d.converting.Lead(conversion...)
}

func (d *deployment) cut() {
	d.admitting.Cut()
	d.converting.Cut()
}

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
	d := newDeployment(t)
	c, client := d.c, d.Client
	namespace, configuration := d.Namespace, "validatingwebhookconfiguration/"+d.Namespace+"-hooks"
	hooks := t.TempDir()
	writeHook := func(timeout int) {
		d.ConvertingHook(t, hooks, "both.sh", denying(namespace)+fmt.Sprint("\n  timeoutSeconds: ", timeout), deny)
	}
	writeHook(10)
	begin := func() *behindBalancer {
		r := d.begin(t, Options{HooksDir: hooks, WatchHooks: true})
		r.log.Until(t, "The CRD leads to the conversion hooks", 1) // then the hook is ready
		r.addresses(t)
		return r
	}
	first := begin()
	d.lead(first)
	c.Kubectl(t, "wait", "--for=create", configuration, "--timeout=60s")
	review := func() error {
		_, err := kube.Send(t.Context(), client.Post().AbsPath("/api/v1/namespaces", namespace, "configmaps").Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body([]byte(`{"metadata": {"name": "a"}}`)).MaxRetries(0))
		if err == nil || !strings.Contains(err.Error(), "nothing is allowed here") {
			return fmt.Errorf("a review was left out or refused: %w", err)
		}
		return nil
	}
	convert := func() error { return d.Send(t.Context(), "converted") }
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
		d.ca.WriteSigned(t, d.files)
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
			d.lead(next)
			last.end(t)
			last = next
		})
	}
	load("restart after a kill", func() { // what fails meanwhile has no replica; nothing is refused before or afterwards
		outage.Add(1)
		d.cut()
		next := begin()
		d.lead(next)
		outage.Add(1)
		last.end(t)
		last = next
	})
	end()
	asking.Wait()
	last.end(t)
	t.Logf("%d in total, %d failed", sent.Load(), failed.Load())
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
