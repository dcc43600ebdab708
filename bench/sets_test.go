package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
)

// syncer is an operator whose hook returns the Sync in a file: at its start, and when the owner of the sets changes.
type syncer struct {
	*bench
	client *kubernetes.Clientset
	// owner is in the namespace of the members.
	owner     *corev1.ConfigMap
	dir, file string
	op        *operator
	runs      int
}

// sets syncs sets of 100 objects, in turns with a loop that applies the same objects in another namespace. They have a label and an owner
// there, too: the API server needs longer for those.
func sets(b *bench) {
	const times, size, deletions = 21, 100, 3
	s := b.syncer()
	other, err := s.client.CoreV1().ConfigMaps(b.cluster.Namespace(b.T)).Create(b.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s.write("warm-up", members("warm-up", 1))
	s.restart()
	var created, createdByLoop, restarted, appliedByLoop, one, none []float64
	var wanted []*corev1.ConfigMap
	for n := range times + 1 {
		name := fmt.Sprint("round-", n)
		wanted = members(name, size)
		loopCreated := s.loop(other, wanted)
		s.write(name, wanted)
		syncCreated := s.change()

		wanted[0].Data["mode"] = "changed"
		s.loop(other, wanted[:1])
		s.write(name, wanted)
		before := s.requests()
		s.change()
		afterOne := s.requests()
		time.Sleep(500 * time.Millisecond) // until the watch of the members has delivered the change
		s.change()
		afterNone := s.requests()

		loopApplied := s.loop(other, wanted)
		syncRestarted := s.restart()
		b.progress("%d of %d: all new %.0f ms, loop %.0f ms; after a restart %.0f ms, loop %.0f ms; %.0f requests for one changed object, "+
			"%.0f for none",
			n, times, syncCreated, loopCreated, syncRestarted, loopApplied, afterOne-before, afterNone-afterOne)
		if n > 0 { // the first round fills the caches
			created, createdByLoop = append(created, syncCreated), append(createdByLoop, loopCreated)
			restarted, appliedByLoop = append(restarted, syncRestarted), append(appliedByLoop, loopApplied)
			one, none = append(one, afterOne-before), append(none, afterNone-afterOne)
		}
	}
	back := s.deleteEach(wanted, deletions)
	s.op.stop()
	b.add("100 objects, all new", "ms", created...).against("loop of applies, 16 workers", createdByLoop...).times(2.2, 0)
	b.add("100 members, first Sync after a restart", "ms", restarted...).against("loop of applies, 16 workers", appliedByLoop...).times(1.3, 0)
	b.add("requests, one of 100 changed", "", one...).most(6) // owner, parent, its counter, list, apply, and the parent again
	b.add("requests, none changed", "", none...).most(1)      // the parent: another process may have changed the set
	b.add("a deleted member until it is back, 99th percentile", "ms", percentile(spreadOf(back).all, 99)).most(300)
	b.add("the same, median", "ms", back...)
}

// syncer prepares an operator, which restart starts.
func (b *bench) syncer() *syncer {
	s := &syncer{bench: b, client: b.client(), file: filepath.Join(b.TempDir(), "sync.json")}
	var err error
	s.owner, err = s.client.CoreV1().ConfigMaps(b.cluster.Namespace(b.T)).Create(b.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s.dir = b.hooks(hook(fmt.Sprintf("{configVersion: v1, onStartup: 1, kubernetes: [{kind: ConfigMap, executeHookOnSynchronization: false, "+
		"executeHookOnEvent: [Modified], "+
		"nameSelector: {matchNames: [owner]}, namespace: {nameSelector: {matchNames: [%s]}}}]}", s.owner.Namespace),
		"cat "+s.file+" > $KUBERNETES_PATCH_PATH\necho written"))
	return s
}

// members returns ConfigMaps of 1 KiB.
func members(set string, n int) (list []*corev1.ConfigMap) {
	for i := range n {
		o := objects.ConfigMap(i, 1024)
		o.Name = fmt.Sprintf("%s-%03d", set, i)
		list = append(list, o)
	}
	return list
}

// write makes a Sync the next result of the hook.
func (s *syncer) write(set string, members []*corev1.ConfigMap) {
	s.Helper()
	owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": s.owner.Namespace, "name": s.owner.Name, "uid": s.owner.UID}
	text, err := json.Marshal(map[string]any{"operation": "Sync", "set": set, "owner": owner, "objects": members})
	if err == nil {
		err = os.WriteFile(s.file, text, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// restart starts the operator, again if it runs, and returns how long its first Sync took.
func (s *syncer) restart() (ms float64) {
	s.Helper()
	if s.op != nil {
		s.op.stop()
	}
	s.op, s.runs = s.start(s.dir, "--namespace", s.owner.Namespace), 0
	ms = s.synced()
	s.op.untilCount("Kubernetes bindings for hook are enabled successfully", 1)
	return ms
}

// change has the hook run, and returns how long its Sync took.
func (s *syncer) change() (ms float64) {
	s.Helper()
	s.owner.Data = map[string]string{"run": fmt.Sprint(s.op.Pid(), s.runs)}
	var err error
	if s.owner, err = s.client.CoreV1().ConfigMaps(s.owner.Namespace).Update(s.Context(), s.owner, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	return s.synced()
}

// synced returns the time from the last line of the next run until its Sync has succeeded.
func (s *syncer) synced() (ms float64) {
	s.Helper()
	s.runs++
	written := s.op.untilCount("written", s.runs).At
	return milliseconds(s.op.untilCount("Hook executed successfully", s.runs).At.Sub(written))
}

// requests counts those of the operator for results of hooks.
func (s *syncer) requests() float64 {
	return sumOf(s.op.Page("/metrics"), "shell_operator_kubernetes_client_request_result_total{", `component="object_patcher"`)
}

// loop applies objects beside their owner by 16 workers on one connection, as the operator has.
func (s *syncer) loop(owner *corev1.ConfigMap, list []*corev1.ConfigMap) (ms float64) {
	s.Helper()
	bodies := make([][]byte, len(list))
	for i, o := range list {
		o = o.DeepCopy()
		metav1.SetMetaDataLabel(&o.ObjectMeta, "bench.example.com/part-of", "applyset-"+strings.Repeat("x", 43)+"-v1")
		o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		var err error
		if bodies[i], err = json.Marshal(o); err != nil {
			s.Fatal(err)
		}
	}
	started := time.Now()
	kube.Concurrently(len(list), 16, func(i int) {
		if _, err := s.client.CoreV1().ConfigMaps(owner.Namespace).
			Patch(s.Context(), list[i].Name, types.ApplyPatchType, bodies[i], metav1.PatchOptions{FieldManager: "bench"}); err != nil {
			s.Error(err)
		}
	})
	if s.Failed() {
		s.FailNow()
	}
	return milliseconds(time.Since(started))
}

// deleteEach deletes one member after the other, some times, and returns how long each was gone. The operator restores five times a minute
// without a delay.
func (s *syncer) deleteEach(list []*corev1.ConfigMap, times int) (ms []float64) {
	s.Helper()
	maps := s.client.CoreV1().ConfigMaps(s.owner.Namespace)
	following, err := maps.Watch(s.Context(), metav1.ListOptions{LabelSelector: "applyset.kubernetes.io/part-of"})
	if err != nil {
		s.Fatal(err)
	}
	defer following.Stop()
	for range times {
		for _, o := range list {
			started := time.Now()
			if err := maps.Delete(s.Context(), o.Name, metav1.DeleteOptions{}); err != nil {
				s.Fatal(err)
			}
			for gone, back := false, false; !back; {
				ev := test.Receive(s.T, following.ResultChan(), "the restore of "+o.Name)
				is, ok := ev.Object.(*corev1.ConfigMap)
				if !ok {
					s.Fatalf("the watch has ended: %v", ev)
				}
				gone = gone || is.Name == o.Name && ev.Type == watch.Deleted
				back = gone && is.Name == o.Name && ev.Type == watch.Added
			}
			ms = append(ms, milliseconds(time.Since(started)))
		}
	}
	return ms
}
