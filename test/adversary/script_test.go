package adversary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test"
)

// patience is for a state that takes a moment: an operator starts, a Lease runs out. It suffices on a busy machine.
const patience = 30 * time.Second

// collected is for objects whose owner is gone: the garbage collector looks for new kinds each 30 s.
const collected = 3 * patience

// play runs the script. Each settle waits for the state of the reference, or makes it.
func (w *world) play() {
	w.t.Helper()
	for i, s := range w.load.steps {
		if s.Do != "settle" {
			w.mu.Lock()
			w.step = i
			w.mu.Unlock()
		}
		switch {
		case s.Do == "settle":
			w.settle(w.settled)
			w.mu.Lock()
			w.settled++
			w.mu.Unlock()
		case w.disturbance != nil:
			w.disturbance.change(w, i, func() { w.do(s) })
		default:
			w.do(s)
		}
		if w.t.Failed() {
			return
		}
	}
	w.rest()
}

// do does one step.
func (w *world) do(s step) {
	w.t.Helper()
	switch s.Do {
	case "start":
		w.launch()
	case "rest":
		w.quiet()
	case "terminate":
		w.terminate(s.Shard)
	case "request":
		w.try(s, func() (string, error) { return "", w.request(s) })
	case "create", "patch", "delete":
		w.try(s, func() (string, error) { return w.change(s) })
	default:
		w.t.Fatalf("%s: unknown step %q", w.load.name, s.Do)
	}
}

// try repeats a step until it succeeds, as a client does: webhooks are not served, or the object is still being deleted.
func (w *world) try(s step, do func() (answer string, err error)) {
	w.t.Helper()
	var answer string
	var err error
	if !w.await(patience, func() bool {
		answer, err = do()
		if s.Answer != "" {
			return strings.Contains(fmt.Sprint(answer, err), s.Answer)
		}
		return err == nil
	}) {
		w.t.Fatalf("step %s of %v: %s %v", s.Do, s.Object, answer, err)
	}
}

// resourceOf is the resource of a manifest.
func resourceOf(o map[string]any) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource((&unstructured.Unstructured{Object: o}).GroupVersionKind())
	return gvr
}

// change does a step on an object, and returns that after it.
func (w *world) change(s step) (string, error) {
	text, err := json.Marshal(s.Object)
	if err != nil {
		return "", err
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(w.words.Replace(string(text))), &o.Object); err != nil {
		return "", err
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = w.namespace
	}
	resources := w.client.Resource(resourceOf(o.Object))
	client := resources.Namespace(namespace)
	if slices.Contains([]string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}, o.GetKind()) {
		client = resources
	}
	ctx := context.Background()
	var dry []string
	if s.Answer != "" {
		dry = []string{metav1.DryRunAll}
	}
	var after *unstructured.Unstructured
	switch s.Do {
	case "create":
		after, err = client.Create(ctx, o, metav1.CreateOptions{FieldManager: "script", DryRun: dry})
		if o.GetKind() == "CustomResourceDefinition" && apierrors.IsAlreadyExists(err) { // of another plan
			err = nil
		}
	case "delete":
		if err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
			err = nil
		}
	case "patch":
		text, _ = o.MarshalJSON()
		var sub []string
		if s.Status {
			sub = []string{"status"}
		}
		options := metav1.PatchOptions{FieldManager: "script", DryRun: dry}
		after, err = client.Patch(ctx, o.GetName(), types.MergePatchType, text, options, sub...)
	}
	if err != nil || after == nil {
		return "", err
	}
	text, err = after.MarshalJSON()
	return string(text), err
}

// settle waits until the cluster is in the state of the reference. In the reference it waits until nothing is written.
func (w *world) settle(n int) {
	w.t.Helper()
	if w.reference == nil {
		w.quiet()
		var s state
		var err error
		if !w.await(collected, func() bool {
			s, err = w.state()
			return err != nil || !s.orphans()
		}) || err != nil {
			w.t.Fatalf("objects without an owner stay, or %v", err)
		}
		w.made = append(w.made, s)
		return
	}
	if w.reaches(n, patience) {
		return
	}
	if d := w.disturbance; d != nil { // as late as it may last
		d.end(w)
	}
	if w.reaches(n, collected) {
		return
	}
	w.t.Errorf("the state after step %d is not that of the reference:\n%s", w.step, w.differs)
}

// reaches reports whether the cluster gets into a state of the reference in time.
func (w *world) reaches(n int, within time.Duration) bool {
	return w.await(within, func() bool {
		s, err := w.state()
		if err != nil {
			w.differs = err.Error()
			return false
		}
		w.differs = s.difference(w.reference.states[n])
		return w.differs == ""
	})
}

// quiet waits until queues are empty and nothing was written for a while.
func (w *world) quiet() {
	w.t.Helper()
	count := -1
	since := time.Now()
	if !w.await(patience, func() bool {
		w.mu.Lock()
		now := len(w.writes)
		w.mu.Unlock()
		if now != count {
			count, since = now, time.Now()
		}
		if time.Since(since) < time.Duration(2*w.load.Replicas-1)*time.Second { // a Lease of 2 s may run out before a replica acts
			return false
		}
		if !w.idle() { // commands: not each time
			since = time.Now()
			return false
		}
		return true
	}) {
		w.t.Errorf("the operator does not come to rest; the last writes are %v", w.last(10))
	}
}

func (w *world) last(n int) []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes[max(0, len(w.writes)-n):])
}

// ready reports whether the replica is: before that its queues are empty, too.
func (r *replica) ready() bool {
	for _, record := range r.op.Records() {
		if record.Has("base http server started") {
			res, err := http.Get("http://" + record.Fields["address"] + ":" + record.Fields["port"] + "/readyz")
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			return res.StatusCode == http.StatusOK
		}
	}
	return false
}

// idle reports whether no replica has a task.
func (w *world) idle() bool {
	if program != "" {
		return true // it cannot be asked
	}
	for _, r := range w.replicas() {
		if !r.ready() {
			return false
		}
		out, err := r.op.Command("queues", "-o", "json").Output()
		var queues []struct{ Tasks int }
		if err == nil {
			err = json.Unmarshal(out, &queues)
		}
		if err != nil || slices.ContainsFunc(queues, func(q struct{ Tasks int }) bool { return q.Tasks > 0 }) {
			return false
		}
	}
	return true
}

// rest checks the end: what was reached stays, and each replica is healthy.
func (w *world) rest() {
	w.t.Helper()
	if w.disturbance != nil {
		w.disturbance.end(w)
	}
	w.quiet()
	if w.reference != nil && !w.reaches(len(w.reference.states)-1, patience) {
		w.t.Errorf("the end is not that of the reference:\n%s", w.differs)
	}
	if program != "" {
		return
	}
	for n := range w.load.Replicas {
		var out []byte
		if !w.await(patience, func() bool { // one that loses its Lease on a busy machine is started again
			r := w.replica(n)
			var err error
			if out, err = r.op.Command("status").CombinedOutput(); err == nil {
				out, err = r.op.Command("parked").CombinedOutput()
			}
			return err == nil && strings.TrimSpace(string(out)) == "no parked tasks"
		}) {
			w.t.Errorf("a replica is not healthy at the end, or contexts are parked:\n%s", out)
		}
	}
}

// request asks an HTTP hook of a replica.
func (w *world) request(s step) error {
	r := w.replica(s.Replica)
	var base string
	for _, record := range r.op.Records() {
		if record.Has("HTTP hooks are served") {
			base = "http://" + record.Fields["address"]
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, s.Method, base+s.Path, bytes.NewBufferString(w.words.Replace(s.Body)))
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return err
}

const servesShard = "This replica serves a shard"

// terminate ends the replica that serves a shard, in peace.
func (w *world) terminate(shard string) {
	w.t.Helper()
	var owner *replica
	if !w.await(patience, func() bool {
		for _, r := range w.replicas() {
			for _, record := range r.op.Records() {
				if record.Has(servesShard, "shard", shard) {
					owner = r
				}
			}
		}
		return owner != nil
	}) {
		w.t.Fatalf("no replica serves shard %s", shard)
	}
	owner.expected.Store(true)
	owner.op.Signal(syscall.SIGTERM)
}

// installCRDs makes the kinds of a workload, once for all plans unless each has its own group.
func (w *world) installCRDs() {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(test.Root(), w.load.CRDs))
	if err != nil {
		w.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var crd map[string]any
		if err := sigsyaml.Unmarshal([]byte(document), &crd); err != nil {
			w.t.Fatal(err)
		}
		w.do(step{Do: "create", Object: crd})
		w.do(step{Do: "patch", Object: crd, Answer: `"status":"True","type":"Established"`})
		if w.load.Words == nil {
			continue
		}
		w.t.Cleanup(func() { // no conversion any more: nothing is left that converts
			none := setProperty(crd, "conversion", map[string]any{"strategy": "None", "webhook": nil})
			_, _ = w.change(step{Do: "patch", Object: none})
			_, _ = w.change(step{Do: "delete", Object: crd})
		})
	}
}
