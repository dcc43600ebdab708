package failover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook writes each state that it receives, and changes an object with the name of its replica.
// While there is a file "many", it wants many more, which takes longer than a Lease.
const streamHook = `#!/bin/bash
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: ConfigMap, labelSelector: {matchLabels: {stream: "yes"}},
    namespace: {nameSelector: {matchNames: [%[1]s]}}}]}'
  exit
fi
jq -r '.[] | if .type == "Synchronization" then .objects[].object else .object end |
  "\(.metadata.name) \(.metadata.annotations.count)"' "$BINDING_CONTEXT_PATH" \
  >>%[2]s/received
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap",
  "metadata": {"name": "patched-by-'$POD_NAME'", "namespace": "%[1]s"}, "data": {"run": "'$RANDOM$RANDOM'"}}}' >"$KUBERNETES_PATCH_PATH"
if [ -e %[2]s/many ]; then
  for i in {1..500}; do
    echo '{"operation": "MergePatch", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "%[1]s", "name": "many-'$i'",
      "mergePatch": {"data": {"a": "b"}}, "ignoreMissingObject": true}'
  done >>"$KUBERNETES_PATCH_PATH"
fi
`

const (
	writers          = 4
	objectsEach      = 5
	changesEach      = 250
	beforeTheTrouble = 300
	leaseDuration    = 10 * time.Second
)

// shortLease are the flags for a Lease that a busy machine can keep, and that runs out soon.
func shortLease() []string {
	return []string{"--leader-election-lease-duration", leaseDuration.String()}
}

// stream changes objects, and records the final state of each.
type stream struct {
	s       *stage
	writing sync.WaitGroup
	// some is closed when there were enough changes for the trouble to begin.
	some chan struct{}

	mu    sync.Mutex
	count int
	last  map[string]int
	err   error
}

// newStream makes the objects.
func newStream(s *stage) *stream {
	st := &stream{s: s, some: make(chan struct{}), last: map[string]int{}}
	client := st.client()
	for w := range writers {
		for i := range objectsEach {
			name := object(w, i)
			st.last[name] = 0
			_, err := client.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"stream": "yes"}, Annotations: map[string]string{"count": "0"},
			}}, metav1.CreateOptions{})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return st
}

func object(writer, i int) string { return fmt.Sprintf("object-%d-%d", writer, i) }

// client is one that makes 20 requests a second: a thousand changes of four writers go on for longer than a Lease.
func (st *stream) client() kubernetes.Interface {
	config := st.s.cluster.Config(st.s.t)
	config.QPS, config.Burst = 20, 1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		st.s.t.Fatal(err)
	}
	return client
}

func (st *stream) start() {
	ctx := st.s.t.Context()
	for w := range writers {
		client := st.client()
		st.writing.Go(func() {
			for n := range changesEach {
				name := object(w, n%objectsEach)
				if err := st.change(ctx, client, name); err != nil {
					st.mu.Lock()
					st.err = err
					st.mu.Unlock()
					return
				}
			}
		})
	}
}

func (st *stream) change(ctx context.Context, client kubernetes.Interface, name string) error {
	st.mu.Lock()
	st.count++
	count := st.count
	st.last[name] = count
	st.mu.Unlock()
	text := fmt.Sprintf(`{"metadata":{"annotations":{"count":"%d"}}}`, count)
	_, err := client.CoreV1().ConfigMaps(st.s.namespace).Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if count == beforeTheTrouble {
		close(st.some)
	}
	return err
}

// missing are the objects of which no hook has seen the last state.
func (st *stream) missing() (missing []string) {
	received := st.s.lines("received")
	st.mu.Lock()
	defer st.mu.Unlock()
	for name, count := range st.last {
		if state := fmt.Sprintf("%s-%d", name, count); !slices.Contains(received, state) {
			missing = append(missing, state)
		}
	}
	slices.Sort(missing)
	return missing
}

// sent are the requests of a replica by which something is changed that is not its Lease, with the time of the last
// renewal of the Lease in front of each.
func sent(g *testenv.Gateway) (changes []testenv.Change, renewed []time.Time) {
	var last time.Time
	for _, c := range g.Changes() {
		switch lease := strings.Contains(c.Path, "/leases"); {
		case lease && c.Status/100 == 2:
			last = c.At
		case !lease:
			changes, renewed = append(changes, c), append(renewed, last)
		}
	}
	return changes, renewed
}

// A thousand changes are made by several writers while the leader is stopped for longer than its Lease. Each object's last state comes
// to a hook; no change of the old leader comes when the Lease has run out, nor after the first one of the new leader.
func TestStream(t *testing.T) {
	s := newStage(t, "")
	testenv.Script(t, s.hooks, "hook.sh", fmt.Sprintf(streamHook, s.namespace, s.dir))
	short := append(shortLease(), "--object-patcher-kube-client-qps", "40", "--object-patcher-kube-client-burst", "1")
	st := newStream(s)
	gatewayA, kubeconfigA := testenv.NewGateway(t, s.cluster.Kubeconfig, 1)
	gatewayB, kubeconfigB := testenv.NewGateway(t, s.cluster.Kubeconfig, 2)
	a := s.start("a", kubeconfigA, short...)
	synchronized(a)
	b := s.start("b", kubeconfigB, short...)
	b.UntilLog("Another replica runs the hooks", "leader", "a")
	b.UntilLog("Kubernetes bindings for hook are enabled successfully")
	st.start()
	<-st.some

	// The leader is stopped while it sends changes. When it continues, many others are due.
	many := filepath.Join(s.dir, "many")
	if err := os.WriteFile(many, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gatewayA.Until(t, "the first of many changes", func(c testenv.Change) bool { return strings.Contains(c.Path, "/many-") })
	a.Expect(1)
	a.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	if err := os.Remove(many); err != nil {
		t.Fatal(err)
	}
	took := b.UntilLog(leads).At.Sub(stopped)
	t.Logf("the next leader began after %s, with a Lease of %s", took.Round(time.Millisecond), leaseDuration)
	if took > 2*leaseDuration {
		t.Errorf("the next leader began after %s", took)
	}
	b.UntilLog("Hook executed successfully")
	a.Signal(syscall.SIGCONT)
	woken := time.Now()
	if status := a.Wait(); status != 1 {
		t.Errorf("status %d", status)
	}
	t.Logf("the old leader had ended %s after it went on", time.Since(woken).Round(time.Millisecond))
	if text := a.Errors.String(); !strings.Contains(text, "the Lease is lost") {
		t.Errorf("it said %q", text)
	}

	st.writing.Wait()
	if st.err != nil {
		t.Fatal(st.err)
	}
	if err := b.TryUntil(test.Patience, func([]testenv.Record) bool { return len(st.missing()) == 0 }); err != nil {
		t.Fatalf("no hook has seen %v: %v", st.missing(), err)
	}
	b.Signal(syscall.SIGTERM)
	b.Wait()
	checkSent(t, gatewayA, gatewayB)
	t.Logf("%d changes, hooks received %d states", st.count, len(s.lines("received")))
}

// checkSent checks the requests of an old leader and of the one after it.
func checkSent(t *testing.T, old, next *testenv.Gateway) {
	t.Helper()
	before, renewed := sent(old)
	after, _ := sent(next)
	if len(before) == 0 || len(after) == 0 {
		t.Fatalf("the first leader sent %d changes, the second one %d", len(before), len(after))
	}
	for i, c := range before {
		if late := c.At.Sub(renewed[i]); late > leaseDuration { // sent before the deadline, and the way here takes a moment
			t.Errorf("%s %s came %s after the last renewal of the Lease", c.Method, c.Path, late)
		}
	}
	if last := before[len(before)-1]; last.At.After(after[0].At) {
		t.Errorf("%s %s of the old leader came %s after the first change of the next one", last.Method, last.Path, last.At.Sub(after[0].At))
	}
	t.Logf("the first leader sent %d changes, the second one %d, the first of them %s after the last of the other",
		len(before), len(after), after[0].At.Sub(before[len(before)-1].At).Round(time.Millisecond))
}
