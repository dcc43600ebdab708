package applyset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// follower of a test: an operator that restores, and what it reports.
type restorer struct {
	*operator
	differs chan string
	warned  chan string
	// watches receives the beginnings and ends of watches, logged the log of restores.
	watches, logged chan string
	// While the hook is paused, asked receives each question whether it runs. While requests are cut off, none is answered.
	paused, cutOff atomic.Bool
	asked          chan string
	// stop ends the process.
	stop func()
}

// lines receives the lines of a log.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// gate fails requests while it is closed.
type gate struct {
	next   http.RoundTripper
	closed *atomic.Bool
}

func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.closed.Load() {
		return nil, errors.New("the gate is closed")
	}
	return g.next.RoundTrip(r)
}

// watching reports the watches that a client sends.
type watching struct {
	next http.RoundTripper
	to   chan<- string
}

func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("watch") {
		what := path.Base(r.URL.Path)
		w.to <- "begin of " + what
		context.AfterFunc(r.Context(), func() { w.to <- "end of " + what })
	}
	return w.next.RoundTrip(r)
}

func newRestorer(t *testing.T, cluster *testenv.Cluster, namespace string) *restorer {
	t.Helper()
	return newRestorerAt(t, cluster, namespace, nil)
}

func newRestorerAt(t *testing.T, cluster *testenv.Cluster, namespace string, now func() time.Time) *restorer {
	t.Helper()
	r := &restorer{
		differs: make(chan string, 100), warned: make(chan string, 100), watches: make(chan string, 100), logged: make(chan string, 100),
		asked: make(chan string, 100),
	}
	config := cluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return gate{next, &r.cutOff} })
	r.operator = newOperator(t, config, namespace, namespace, false)
	config = cluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watching{next, r.watches} })
	r.options.Watch = testenv.Client(t, config)
	r.options.Log = slog.New(slog.NewTextHandler(lines(r.logged), nil))
	r.options.Active = func(hook string) bool {
		if r.paused.Load() {
			r.asked <- hook
			return false
		}
		return true
	}
	r.options.Differs = func(hook, set, kind string) { r.differs <- fmt.Sprint(hook, " ", set, " ", kind) }
	r.options.Warn = func(_ string, _ effect.Owner, reason, note string) { r.warned <- reason + ": " + note }
	r.options.Now = now
	r.Applier = New(r.options)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	r.stop = sync.OnceFunc(func() {
		end()
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		r.read(ended)
	})
	t.Cleanup(r.stop)
	return r
}

// read reads what is reported until a channel is closed, so that nothing waits for a reader.
func (r *restorer) read(until <-chan struct{}) {
	for {
		select {
		case <-r.differs:
		case <-r.watches:
		case <-r.logged:
		case <-r.warned:
		case <-r.asked:
		case <-until:
			return
		}
	}
}

func until(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if !strings.Contains(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(test.Patience):
		t.Fatalf("%q did not come", want)
	}
}

// While a set waits, the members of others are restored, also if many of its own have changed. They are restored when it has ended.
func TestDriftWaitsForNoOtherSet(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	document := func(set string, members int, value string) string {
		var objects []string
		for i := range members {
			objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%d}, data: {v: %q}}`, set, i, value))
		}
		return `{operation: Sync, set: ` + set + `, objects: [` + strings.Join(objects, ",") + `]}`
	}
	members := 2 * parallelRestores
	for set, n := range map[string]int{"slow": members, "quick": 1} {
		if err := r.sync(t.Context(), "web.sh", document(set, n, "1")); err != nil {
			t.Fatal(err)
		}
	}
	until(t, r.watches, "begin of configmaps")
	reached, released, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	var once sync.Once
	r.traffic.mu.Lock()
	r.traffic.after = func(_ int, req *http.Request) error {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/slow-") {
			once.Do(func() { close(reached) })
			<-released
		}
		return nil
	}
	r.traffic.mu.Unlock()
	go func() { ended <- r.sync(t.Context(), "web.sh", document("slow", members, "2")) }()
	<-reached
	for i := range members {
		cluster.Kubectl(t, "-n", namespace, "delete", "configmap", fmt.Sprint("slow-", i))
	}
	cluster.Kubectl(t, "-n", namespace, "delete", "configmap", "quick-0")
	until(t, r.differs, "web.sh quick ConfigMap")
	cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", "configmap/quick-0", "--timeout=60s")
	close(released)
	<-ended // some of its objects were deleted while it applied them
	for i := range members {
		cluster.Kubectl(t, "-n", namespace, "wait", "--for=create", fmt.Sprintf("configmap/slow-%d", i), "--timeout=60s")
		cluster.Kubectl(t, "-n", namespace, "wait", "--for=jsonpath={.data.v}=2", fmt.Sprintf("configmap/slow-%d", i), "--timeout=60s")
	}
}

// A change of a member between the list and the end of a Sync is not forgotten where changes are left to the next Sync.
func TestIgnoredChangeDuringSync(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	apply := func(b string) {
		t.Helper()
		if err := r.sync(t.Context(), "web.sh", `{operation: Sync, set: web, drift: ignore, objects: [{apiVersion: v1, kind: ConfigMap, `+
			`metadata: {name: a}, data: {k: "1"}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: "`+b+`"}}]}`); err != nil {
			t.Fatal(err)
		}
	}
	apply("1")
	until(t, r.watches, "begin of configmaps")
	var once sync.Once
	r.traffic.mu.Lock()
	r.traffic.after = func(_ int, req *http.Request) error {
		if req.URL.Query().Has("labelSelector") {
			once.Do(func() {
				cluster.Kubectl(t, "-n", namespace, "patch", "configmap", "a", "--type=merge", "-p", `{"data": {"k": "by hand"}}`)
			})
		}
		return nil
	}
	r.traffic.mu.Unlock()
	apply("2")
	until(t, r.differs, "web.sh web ConfigMap")
	apply("2")
	if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap", "a", "-o", "jsonpath={.data.k}"); got != "1" {
		t.Errorf("the next Sync leaves %q", got)
	}
}

// Nothing is kept of the sets of a hook that is gone.
func TestHookIsGone(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	r := newRestorer(t, cluster, namespace)
	if err := r.sync(t.Context(), "web.sh", documentOf(map[string]string{"a": "1"})); err != nil {
		t.Fatal(err)
	}
	r.Drop(func(hook string) bool { return hook == "other.sh" })
	if sets, watches := r.kept(); sets != 1 || watches != 1 {
		t.Errorf("%d sets and %d watches are kept", sets, watches)
	}
	r.Drop(func(hook string) bool { return hook == "web.sh" })
	if sets, watches := r.kept(); sets+watches != 0 {
		t.Errorf("%d sets and %d watches are kept of a hook that is gone", sets, watches)
	}
}
