package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// setsHook makes the set in the body of a request complete.
const setsHook = `#!/bin/bash
if [ "$1" = --config ]; then echo '{configVersion: v1, http: [{name: put, method: POST, path: /sets}]}'; exit; fi
jq -r '.[0].request.body' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"
`

// members are the values of the objects of a set, by name.
type members map[string]string

// setWorld is two replicas that answer requests which change one set.
type setWorld struct {
	t         *testing.T
	cluster   *testenv.Cluster
	client    kubernetes.Interface
	random    *rand.Rand
	namespace string
	replicas  [2]*testenv.Operator
	hooks     string
	// args are the arguments of both replicas; restores selects the log record of the one that restores.
	args     []string
	restores func(testenv.Record) bool
	// wanted are what the set may be now: what was answered last, or both of two requests at the same time; none after a request without
	// an answer.
	wanted []members
	// strayed counts how often a stranger has changed a member: further restores of it are delayed.
	strayed map[string]int

	mu sync.Mutex
	// story is what has happened.
	story   []string
	changes int
}

func (w *setWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *setWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", strings.Join(w.story[max(0, len(w.story)-12):], "\n"), fmt.Sprintf(format, args...))
}

func (w *setWorld) launch(i int) {
	w.t.Helper()
	w.replicas[i] = testenv.Start(w.t, testenv.OperatorOptions{HooksDir: w.hooks, Kubeconfig: w.cluster.Kubeconfig,
		Args: append([]string{"--namespace", w.namespace, "--kubernetes-events=false", "--leader-election-lease-duration", "6s"}, w.args...)})
	w.replicas[i].UntilLog("HTTP hooks are served")
}

func (w *setWorld) any() members {
	want := members{}
	for _, name := range []string{"a", "b", "c", "d"} {
		if w.random.IntN(3) > 0 {
			want[name] = fmt.Sprint(w.random.IntN(3))
		}
	}
	return want
}

// put sends a set to a replica, and returns an error if that does not answer that it is complete.
func (w *setWorld) put(to *testenv.Operator, want members) error {
	var objects []string
	for name, value := range want {
		more := "" // another value may come with another field
		if value == "2" {
			more = `, more: "2"`
		}
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {v: %q%s}}`, name,
			w.namespace, value, more))
	}
	document := fmt.Sprintf("{operation: Sync, set: web, allowEmpty: true, objects: [%s]}", strings.Join(objects, ", "))
	url := "http://" + to.UntilLog("HTTP hooks are served").Fields["address"] + "/sets"
	res, err := http.Post(url, "text/plain", strings.NewReader(document))
	if err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			err = fmt.Errorf("status %d", res.StatusCode)
		}
	}
	w.note("Sync of %v: %v", want, err)
	return err
}

// read returns the members, and whether the set has a record.
func (w *setWorld) read() (is members, recorded bool) {
	w.t.Helper()
	list, err := w.client.CoreV1().ConfigMaps(w.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	is = members{}
	for _, o := range list.Items {
		recorded = recorded || o.Annotations["shell-operator/set"] != ""
		if o.Labels["applyset.kubernetes.io/part-of"] != "" {
			is[o.Name] = o.Data["v"]
			if (o.Data["v"] == "2") != (o.Data["more"] == "2") {
				is[o.Name] += " with the fields of another Sync"
			}
		}
	}
	return is, recorded
}

// wrong returns what is not as the model has it.
func (w *setWorld) wrong() string {
	is, recorded := w.read()
	if len(w.wanted) == 0 {
		if len(is) > 0 && !recorded {
			return fmt.Sprintf("there is %v, without a record", is)
		}
		return ""
	}
	for _, want := range w.wanted {
		if maps.Equal(is, want) && recorded == (len(want) > 0) {
			return ""
		}
	}
	return fmt.Sprintf("there is %v, with a record: %t; want %v", is, recorded, w.wanted)
}

// check waits until the cluster is as the model has it, and for the time in which a replica would change that.
func (w *setWorld) check() {
	w.t.Helper()
	late := time.Now().Add(patience)
	for text := w.wrong(); text != ""; text = w.wrong() {
		if time.Now().After(late) {
			w.fatal("%s", text)
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Duration(100+w.random.IntN(300)) * time.Millisecond)
	if text := w.wrong(); text != "" {
		w.fatal("later %s", text)
	}
}

// answered changes the model after a request that no other one has met.
func (w *setWorld) answered(want members, err error) {
	w.wanted = nil
	if err == nil {
		w.wanted = []members{want}
		w.changes++
	}
}

// lose ends a replica while it answers, and starts it again.
func (w *setWorld) lose(i int, signal syscall.Signal) {
	want, done := w.any(), make(chan error, 1)
	op := w.replicas[i]
	go func() { done <- w.put(op, want) }()
	time.Sleep(time.Duration(w.random.IntN(150)) * time.Millisecond)
	op.Signal(signal)
	w.note("replica %d of them gets the signal %v", i, signal)
	if signal == syscall.SIGSTOP { // a leader loses its Lease; whatever it has begun, it continues beside what others have made meanwhile
		other := w.any()
		err := w.put(w.replicas[1-i], other)
		if err != nil {
			w.fatal("a Sync beside a stopped replica: %v", err)
		}
		w.wanted = []members{other}
		if w.random.IntN(2) == 0 {
			time.Sleep(8 * time.Second)
			w.check()
		}
		op.Signal(syscall.SIGCONT)
		w.note("it continues")
		if err := <-done; err != nil {
			w.wanted = nil
		} else {
			w.wanted = append(w.wanted, want)
		}
		op.Signal(terminate)
		op.Expect(op.Wait())
	} else {
		op.Expect(op.Wait())
		w.answered(want, <-done)
	}
	w.check()
	w.launch(i)
}

// restorer returns the replica that restores, or nil.
func (w *setWorld) restorer() *testenv.Operator {
	for _, op := range w.replicas {
		if slices.ContainsFunc(op.Records(), w.restores) {
			return op
		}
	}
	return nil
}

// stray changes a member as another client. It is restored if the replica that restores has answered last.
func (w *setWorld) stray() {
	restorer, want := w.restorer(), w.any()
	if restorer == nil {
		return
	}
	if err := w.put(restorer, want); err != nil {
		w.fatal("a Sync: %v", err)
	}
	w.answered(want, nil)
	is, _ := w.read()
	for name := range is {
		if w.strayed[name]++; w.strayed[name] > 3 {
			continue
		}
		maps := w.client.CoreV1().ConfigMaps(w.namespace)
		var err error
		if w.random.IntN(2) == 0 {
			err = maps.Delete(context.Background(), name, metav1.DeleteOptions{})
		} else {
			_, err = maps.Patch(context.Background(), name, types.MergePatchType, []byte(`{"data": {"v": "stray"}}`), metav1.PatchOptions{})
		}
		w.note("a stranger changes %s: %v", name, err)
		return
	}
}

// Requests, commands and strangers change one set beside each other, while replicas are killed and stopped: the last answered Sync is what
// the cluster has, and nothing is there without a record. With shards, a request may change the sets of another shard; the sets of
// a hook without shardBy belong to shard 0.
func TestSetsByRequests(t *testing.T) {
	t.Run("leader", func(t *testing.T) {
		setsByRequests(t, "sets-by-requests", &setWorld{args: []string{"--leader-election"},
			restores: func(r testenv.Record) bool { return r.Has(leads) }})
	})
	t.Run("shards", func(t *testing.T) {
		setsByRequests(t, "sets-by-requests-of-shards", &setWorld{args: []string{"--shards", "2"},
			restores: func(r testenv.Record) bool { return r.Has(servesShard, "shard", "0/2") }})
	})
}

func setsByRequests(t *testing.T, name string, w *setWorld) {
	wanted(t, name)
	together(t)
	cluster := testenv.Shared(t)
	w.t, w.cluster, w.client, w.random = t, cluster, cluster.Clientset(t), rand.New(rand.NewPCG(seed(), 600))
	w.namespace, w.strayed, w.wanted, w.hooks = cluster.Namespace(t), map[string]int{}, []members{{}}, t.TempDir()
	testenv.Script(t, w.hooks, "put.sh", setsHook)
	began, verdict := time.Now(), "FAILED"
	defer func() {
		resultsMu.Lock()
		defer resultsMu.Unlock()
		results = append(results, result{Case: name, Seed: seed(), Verdict: verdict, Took: time.Since(began), Changes: w.changes})
	}()
	for i := range w.replicas {
		w.launch(i)
	}
	rounds := 30
	if all {
		rounds = 80
	}
	for range rounds {
		i, want := w.random.IntN(2), w.any()
		switch w.random.IntN(10) {
		case 0:
			w.lose(i, syscall.SIGKILL)
		case 1:
			w.lose(i, syscall.SIGSTOP)
		case 2:
			other, done := w.any(), make(chan error, 1)
			go func() { done <- w.put(w.replicas[1-i], other) }()
			if err := errors.Join(w.put(w.replicas[i], want), <-done); err != nil {
				w.fatal("of two Syncs at the same time: %v", err)
			}
			w.wanted = []members{want, other}
		case 3:
			out, err := exec.Command(testenv.Binary(t), "sets", "delete", "put.sh/web", "--kube-config", cluster.Kubeconfig, "--namespace",
				w.namespace).CombinedOutput()
			w.note("sets delete: %s", out)
			if is, recorded := w.read(); err != nil && (recorded || len(is) > 0) {
				w.fatal("sets delete: %v: %s", err, out)
			}
			w.wanted = []members{{}}
		case 4:
			w.stray()
		default:
			err := w.put(w.replicas[i], want)
			if err != nil {
				w.fatal("a Sync: %v", err)
			}
			w.answered(want, nil)
		}
		w.check()
	}
	verdict = "ok"
}
