// Package outage takes the API server away from a running operator and gives it back.
package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// The hook prints its contexts in one line.
const hookText = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{configVersion: v1, kubernetes: [{kind: Secret, includeSnapshotsFrom: [kubernetes], namespace: {nameSelector: {matchNames: [%s]}}}]}'
  exit
fi
printf 'run '; cat "$BINDING_CONTEXT_PATH"
`

// seen is a state of one object that the hook received.
type seen struct {
	event string
	// count is the value that the test wrote into the object, uid distinguishes objects of one name.
	count int
	uid   string
}

type object struct {
	Metadata struct{ Name, UID string }
	Data     struct{ Count []byte }
}

func (o object) seen(event string) seen {
	n := 0
	_, _ = fmt.Sscan(string(o.Data.Count), &n)
	return seen{event, n, o.Metadata.UID}
}

type item struct{ Object object }

type hookContext struct {
	Type, WatchEvent string
	Object           object
	Objects          []item
	Snapshots        struct{ Kubernetes []item }
}

// history returns the states that the hook received, by name of the object, and the last snapshot.
func history(t *testing.T, records []testenv.Record) (received map[string][]seen, snapshot map[string]int) {
	received = map[string][]seen{}
	for _, r := range records {
		text, ok := strings.CutPrefix(r.Fields["msg"], "run ")
		if !ok {
			continue
		}
		var contexts []hookContext
		if err := json.Unmarshal([]byte(text), &contexts); err != nil {
			t.Fatal(err)
		}
		for _, c := range contexts {
			if c.Type == "Event" {
				received[c.Object.Metadata.Name] = append(received[c.Object.Metadata.Name], c.Object.seen(c.WatchEvent))
			}
			for _, o := range c.Objects {
				received[o.Object.Metadata.Name] = append(received[o.Object.Metadata.Name], o.Object.seen("Added"))
			}
			snapshot = map[string]int{}
			for _, o := range c.Snapshots.Kubernetes {
				snapshot[o.Object.Metadata.Name] = o.Object.seen("").count
			}
		}
	}
	return received, snapshot
}

// world is what the test has done to the objects.
type world struct {
	t       *testing.T
	secrets typed.SecretInterface
	// counts is the last count of each object that exists; next is never used twice.
	counts map[string]int
	next   int
}

func newWorld(t *testing.T, cluster *testenv.Cluster, namespace string) *world {
	client, err := kubernetes.NewForConfig(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, secrets: client.CoreV1().Secrets(namespace), counts: map[string]int{}}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(name string) {
	w.t.Helper()
	w.next++
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"count": fmt.Append(nil, w.next)}}
	_, err := w.secrets.Update(context.Background(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.secrets.Create(context.Background(), secret, metav1.CreateOptions{})
	}
	w.must(err)
	w.counts[name] = w.next
}

func (w *world) remove(name string) {
	w.t.Helper()
	if _, exists := w.counts[name]; !exists {
		return
	}
	w.must(w.secrets.Delete(context.Background(), name, metav1.DeleteOptions{}))
	delete(w.counts, name)
}

// stir changes, removes and re-creates objects at random.
func (w *world) stir(random *rand.Rand, times int) {
	w.t.Helper()
	for range times {
		name := fmt.Sprintf("object-%02d", random.IntN(20))
		switch random.IntN(6) {
		case 0:
			w.remove(name)
		case 1:
			w.remove(name)
			w.write(name)
		default:
			w.write(name)
		}
	}
}

// settled waits until the hook has received the last state of every object, and checks the order of states.
func (w *world) settled(op *testenv.Operator) {
	w.t.Helper()
	// The last write of all: when the hook knows it, it has seen everything before, because one watch brings both.
	w.write("last")
	op.Until("the last state of every object", func(records []testenv.Record) bool {
		received, snapshot := history(w.t, records)
		return w.complete(received, snapshot)
	})
	received, _ := history(w.t, op.Records())
	for name, states := range received {
		for i := 1; i < len(states); i++ {
			before, after := states[i-1], states[i]
			switch {
			case after.count < before.count:
				w.t.Errorf("%s: state %d came after state %d", name, after.count, before.count)
			case before.event != "Deleted" && after.event == "Added":
				w.t.Errorf("%s was added twice without a deletion between: %v", name, states)
			case before.event == "Deleted" && after.event != "Added":
				w.t.Errorf("%s: %s came after the deletion", name, after.event)
			case after.event != "Added" && before.uid != after.uid:
				w.t.Errorf("%s: %s is about another object than before", name, after.event)
			}
		}
	}
}

func (w *world) complete(received map[string][]seen, snapshot map[string]int) bool {
	for name, states := range received {
		last := states[len(states)-1]
		if count, exists := w.counts[name]; exists && (last.event == "Deleted" || last.count != count) || !exists && last.event != "Deleted" {
			return false
		}
	}
	for name, count := range w.counts {
		if len(received[name]) == 0 || snapshot[name] != count {
			return false
		}
	}
	return len(snapshot) == len(w.counts)
}

func startOperator(t *testing.T, kubeconfig, namespace string) *testenv.Operator {
	op := launchOperator(t, kubeconfig, namespace)
	op.UntilLog("Unlock kubernetes.Event tasks")
	return op
}

// launchOperator does not wait for anything.
func launchOperator(t *testing.T, kubeconfig, namespace string) *testenv.Operator {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hook.sh"), fmt.Appendf(nil, hookText, namespace), 0o755); err != nil {
		t.Fatal(err)
	}
	return testenv.Start(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: kubeconfig})
}

// The API server is killed and started again. Another operator is started while it is dead.
func TestAPIServerKilled(t *testing.T) {
	cluster := testenv.Own(t)
	namespace := cluster.Namespace(t)
	w := newWorld(t, cluster, namespace)
	random := rand.New(rand.NewPCG(3, 4))
	w.stir(random, 30)
	op := startOperator(t, cluster.Kubeconfig, namespace)
	w.stir(random, 30)
	cluster.Kill(t, "kube-apiserver")
	op.UntilLog("Watch Failed")
	late := launchOperator(t, cluster.Kubeconfig, namespace)
	late.UntilLog("Enable Kubernetes binding for hook failed. Will retry after delay.")
	cluster.Restart(t, "kube-apiserver")
	w.stir(random, 30)
	w.settled(op)
	w.settled(late)
}
