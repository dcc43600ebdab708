package applyset

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// await waits until something holds that nothing reports.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(test.Patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// kept counts what a process keeps of sets.
func (a *Applier) kept() (sets, watches int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sets), len(a.followers)
}

// ignoreReports reads what is reported.
func (r *restorer) ignoreReports(t *testing.T) {
	var reading sync.WaitGroup
	end := make(chan struct{})
	reading.Go(func() { r.read(end) })
	t.Cleanup(func() { close(end); reading.Wait() })
}

// Nothing is kept of sets whose owners are deleted with their namespaces, whatever is deleted first: neither state nor watches nor
// goroutines.
func TestNothingIsLeftOfNamespaces(t *testing.T) {
	cluster := testenv.Shared(t)
	namespaces := 40
	if test.Long() {
		namespaces = 200
	}
	own := cluster.Namespace(t)
	r := newRestorer(t, cluster, own)
	r.ignoreReports(t)
	client := testenv.Client(t, cluster.Config(t))
	goroutines := runtime.NumGoroutine()
	kube.Concurrently(namespaces, 16, func(i int) {
		namespace := fmt.Sprintf("%s-%d", own, i)
		if _, err := kube.Send(t.Context(), client.Post().AbsPath("/api/v1/namespaces").SetHeader("Content-Type", "application/json").
			Body(fmt.Appendf(nil, `{"metadata": {"name": %q}}`, namespace))); err != nil {
			t.Error(err)
			return
		}
		post(t, client, namespace, "configmaps", `{"metadata": {"name": "owner"}}`)
		err := r.sync(t.Context(),
			"web.sh", fmt.Sprintf(`{operation: Sync, set: web, owner: {apiVersion: v1, kind: ConfigMap, namespace: %s, name: owner}, `+
				`objects: [{apiVersion: v1, kind: Secret, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}`, namespace))
		if err != nil {
			t.Error(err)
		}
	})
	if sets, watches := r.kept(); sets != namespaces || watches != namespaces+1 {
		t.Fatalf("%d sets and %d watches for %d namespaces", sets, watches, namespaces)
	}
	began := time.Now()
	kube.Concurrently(namespaces, 16, func(i int) {
		if _, err := kube.Send(t.Context(), client.Delete().AbsPath("/api/v1/namespaces", fmt.Sprintf("%s-%d", own, i))); err != nil {
			t.Error(err)
		}
	})
	await(t, "something is kept of deleted namespaces", func() bool {
		sets, watches := r.kept()
		return sets == 0 && watches == 0
	})
	t.Logf("nothing is kept after %s", time.Since(began).Round(time.Second))
	await(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines+20 }) // idle connections have some
}
