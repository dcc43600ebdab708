package applyset

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// documentOf is a Sync of ConfigMaps with these values. The value 2 comes with one more field.
func documentOf(want map[string]string) string {
	var objects []string
	for name, value := range want {
		more := ""
		if value == "2" {
			more = `, f: "2"`
		}
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {k: %q%s}}`, name, value, more))
	}
	return `{operation: Sync, set: web, allowEmpty: true, objects: [` + strings.Join(objects, ", ") + `]}`
}

// setOfCluster returns the values of the members in a namespace, and whether the set has a record.
func setOfCluster(t *testing.T, client rest.Interface, namespace string) (is map[string]string, recorded bool) {
	t.Helper()
	text, err := kube.Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces", namespace, "configmaps"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Data map[string]string
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	is = map[string]string{}
	for _, o := range list.Items {
		recorded = recorded || o.Metadata.Labels[idLabel] != ""
		if o.Metadata.Labels[partOfLabel] != "" {
			is[o.Metadata.Name] = o.Data["k"]
		}
	}
	return is, recorded
}

// idle waits until a process checks no member.
func idle(t *testing.T, r *restorer) {
	t.Helper()
	await(t, "the process compares members forever", func() bool {
		r.mu.Lock()
		drifted := r.drifted
		r.mu.Unlock()
		if drifted == nil || drifted.Len() > 0 {
			return false
		}
		for _, s := range r.states() {
			select {
			case s.turn <- struct{}{}:
				<-s.turn
			default:
				return false
			}
		}
		return true
	})
}

// A restore creates a member that another process has given up meanwhile: it is removed again.
func TestRestoreMeetsSync(t *testing.T) {
	cluster := inMemory(t)
	namespace := cluster.Namespace(t)
	leader := newRestorer(t, cluster, namespace)
	leader.ignoreReports(t)
	standby := newOperator(t, cluster.Config(t), namespace, namespace, false)
	client := testenv.Client(t, cluster.Config(t))
	for _, want := range []map[string]string{{"a": "1"}, {}} {
		if err := leader.sync(t.Context(), "web.sh", documentOf(map[string]string{"a": "1", "b": "1"})); err != nil {
			t.Fatal(err)
		}
		idle(t, leader)
		applied := make(chan error, 1)
		leader.traffic.mu.Lock()
		leader.traffic.before = func(_ int, r *http.Request) error {
			if r.Method == http.MethodPatch && path.Base(r.URL.Path) == "b" { // the restore, after all that it has read
				leader.traffic.mu.Lock()
				leader.traffic.before = nil
				leader.traffic.mu.Unlock()
				applied <- standby.sync(t.Context(), "web.sh", documentOf(want))
			}
			return nil
		}
		leader.traffic.mu.Unlock()
		if _, err := kube.Send(t.Context(), client.Delete().AbsPath("/api/v1/namespaces", namespace, "configmaps", "b")); err != nil {
			t.Fatal(err)
		}
		if err := <-applied; err != nil {
			t.Fatal(err)
		}
		await(t, "the restore has not ended", func() bool {
			is, recorded := setOfCluster(t, client, namespace)
			return maps.Equal(is, want) && recorded == (len(want) > 0)
		})
		idle(t, leader)
		if is, _ := setOfCluster(t, client, namespace); !maps.Equal(is, want) {
			t.Errorf("there is %v; want %v", is, want)
		}
	}
}

// Processes sync one set in random order, also at the same time, while one of them restores and others are killed. The last Sync that was
// answered is what the cluster has, and nothing is there without a record.
func TestRandomProcesses(t *testing.T) {
	cluster := inMemory(t)
	rounds := 200
	if test.Long() {
		rounds = 2000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	namespace := cluster.Namespace(t)
	client := testenv.Client(t, cluster.Config(t))
	leader := newRestorer(t, cluster, namespace)
	leader.ignoreReports(t)
	processes := []*operator{leader.operator, newOperator(t, cluster.Config(t), namespace, namespace, false),
		newOperator(t, cluster.Config(t), namespace, namespace, false)}
	anySet := func() map[string]string {
		want := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			if random.IntN(3) > 0 {
				want[name] = fmt.Sprint(random.IntN(3))
			}
		}
		return want
	}
	var story []string
	expect := func(wanted ...map[string]string) {
		t.Helper()
		problem := ""
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) { // of restores
			idle(t, leader)
			is, recorded := setOfCluster(t, client, namespace)
			for _, want := range wanted {
				if maps.Equal(is, want) && recorded == (len(want) > 0) {
					return
				}
			}
			if problem = fmt.Sprintf("there is %v, with a record: %t", is, recorded); time.Now().After(deadline) {
				t.Fatalf("%s; %s", strings.Join(story, "\n"), problem)
			}
		}
	}
	for range rounds {
		by, want := random.IntN(len(processes)), anySet()
		switch random.IntN(6) {
		case 0: // killed, and not answered
			killed := newOperator(t, cluster.Config(t), namespace, namespace, false)
			killed.traffic.kill(1+random.IntN(12), random.IntN(2) == 0)
			err := killed.sync(t.Context(), "web.sh", documentOf(want))
			story = append(story, fmt.Sprintf("a process syncs %v and is killed: %v", want, err))
			if is, recorded := setOfCluster(t, client, namespace); len(is) > 0 && !recorded {
				t.Fatalf("%s; %v has no record", strings.Join(story, "\n"), is)
			}
			if err == nil {
				expect(want)
			}
		case 1: // two at the same time
			other, more := random.IntN(len(processes)), anySet()
			var syncing sync.WaitGroup
			var errs [2]error
			syncing.Go(func() { errs[0] = processes[by].sync(t.Context(), "web.sh", documentOf(want)) })
			syncing.Go(func() { errs[1] = processes[other].sync(t.Context(), "web.sh", documentOf(more)) })
			syncing.Wait()
			story = append(story, fmt.Sprintf("%d syncs %v and %d %v: %v", by, want, other, more, errs))
			if errs[0] == nil && errs[1] == nil {
				expect(want, more)
			}
		default:
			err := processes[by].sync(t.Context(), "web.sh", documentOf(want))
			story = append(story, fmt.Sprintf("%d syncs %v: %v", by, want, err))
			if err != nil {
				t.Fatal(strings.Join(story, "\n"))
			}
			expect(want)
		}
	}
}
