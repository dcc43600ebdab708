package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// divided is a hook that writes a file for each run: what it received, the shard, and when it began and ended. The file has its name when
// the run has ended.
const divided = `#!/bin/bash
if [ "$1" = --config ]; then
  echo '{configVersion: v1, settings: {%[3]s},
    kubernetes: [{apiVersion: %[5]s, kind: %[6]s, queue: %[4]s, labelSelector: {matchLabels: {part-of: %[1]s}}}]}'
  exit
fi
began=$(date +%%s%%N)
lines=$(jq -r '.[] | if .type == "Synchronization" then
  .objects[] | "S \(.object.metadata.namespace)/\(.object.metadata.name) \(.object.data.v)"
  else "E \(.object.metadata.namespace)/\(.object.metadata.name) \(.object.data.v)" end' "$BINDING_CONTEXT_PATH")
printf '%%s %%s %%s %%s\n%%s\n' "$POD_NAME" "${HOOK_SHARD:-none}" "$began" "$(date +%%s%%N)" "$lines" >%[2]s/.$POD_NAME-%[4]s-$began
mv %[2]s/.$POD_NAME-%[4]s-$began %[2]s/%[4]s.$POD_NAME-$began
`

// sharing is replicas that share objects, and a client that changes these.
type sharing struct {
	t         *testing.T
	cluster   *testenv.Cluster
	client    rest.Interface
	namespace string
	dir       string
	hooks     []string
	spaces    []string
	// apiVersion, kind and resource are those of the objects.
	apiVersion, kind, resource string
	// runs are those that were read, by file.
	runs map[string]received

	mu sync.Mutex
	// live are the replicas by the name of their Pod; all of them ever started are counted.
	live    map[string]*testenv.Operator
	started int
	// exempt are replicas whose hooks may outlive them: those that were killed or stopped.
	exempt map[string]bool
	// values are the last ones that were written, by object.
	values map[string]int
}

// newSharing makes objects: ConfigMaps or custom resources.
func newSharing(t *testing.T, cluster *testenv.Cluster, custom bool, spaces, objects int) *sharing {
	s := &sharing{t: t, cluster: cluster, dir: t.TempDir(), live: map[string]*testenv.Operator{}, exempt: map[string]bool{},
		values: map[string]int{}, runs: map[string]received{}, apiVersion: "v1", kind: "ConfigMap", resource: "configmaps"}
	s.namespace = s.cluster.Namespace(t)
	config := s.cluster.Config(t)
	config.QPS = -1
	s.client = testenv.Client(t, config)
	if custom {
		s.define()
	}
	for i := range spaces {
		name := fmt.Sprintf("%s-team-%d", s.namespace, i)
		s.spaces = append(s.spaces, name)
		s.send(s.client.Post().AbsPath("/api/v1/namespaces"), fmt.Sprintf(`{"metadata": {"name": %q}}`, name))
	}
	t.Cleanup(func() {
		for _, name := range s.spaces {
			_ = s.client.Delete().AbsPath("/api/v1/namespaces", name).Do(context.Background()).Error()
		}
	})
	for i := range objects {
		s.write(s.spaces[i%spaces]+"/"+fmt.Sprint("object-", i/spaces), 1)
	}
	return s
}

// define makes a kind of custom resources.
func (s *sharing) define() {
	group := s.namespace + ".example.com"
	s.apiVersion, s.kind, s.resource = group+"/v1", "Part", "parts"
	s.cluster.KubectlInput(s.t, fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "parts.%[1]s"}, "spec": {"group": %[1]q, "scope": "Namespaced", "names": {"kind": "Part", "plural": "parts"},
		"versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, group), "create", "-f", "-")
	s.t.Cleanup(func() { _, _ = s.cluster.TryKubectl("", "delete", "crd", "parts."+group, "--wait=false") })
	s.cluster.Kubectl(s.t, "wait", "--for=condition=established", "crd/parts."+group, "--timeout=170s")
}

// path is that of the objects of a namespace.
func (s *sharing) path(space string) []string {
	root := "/apis/"
	if s.apiVersion == "v1" {
		root = "/api/"
	}
	return []string{root + s.apiVersion + "/namespaces", space, s.resource}
}

func (s *sharing) send(r *rest.Request, body string) {
	if err := r.Body([]byte(body)).Do(s.t.Context()).Error(); err != nil && s.t.Context().Err() == nil {
		s.t.Errorf("cannot send %s: %v", body, err)
	}
}

// write creates or changes an object.
func (s *sharing) write(object string, value int) {
	space, name, _ := strings.Cut(object, "/")
	if value == 1 {
		s.send(s.client.Post().AbsPath(s.path(space)...),
			fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "labels": {"part-of": %q}}, "data": {"v": "1"}}`,
				s.apiVersion, s.kind, name, s.namespace))
	} else {
		s.send(s.client.Patch(types.MergePatchType).AbsPath(append(s.path(space), name)...), fmt.Sprintf(`{"data": {"v": "%d"}}`, value))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[object] = value
}

// writes changes random objects until the function that it returns is called.
func (s *sharing) writes() (end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var writing sync.WaitGroup
	var objects []string
	for object := range s.values {
		objects = append(objects, object)
	}
	slices.Sort(objects)
	random := rand.New(rand.NewPCG(1, 2))
	writing.Go(func() {
		for ctx.Err() == nil {
			object := objects[random.IntN(len(objects))]
			s.mu.Lock()
			next := s.values[object] + 1
			s.mu.Unlock()
			s.write(object, next)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); writing.Wait() }
}

// version is how replicas are started.
type version struct {
	hooks string
	args  []string
}

// version has a hook for each shardBy of its settings, each in a queue of its own.
func (s *sharing) version(args string, settings ...string) version {
	dir := s.t.TempDir()
	for i, setting := range settings {
		name := fmt.Sprint("q", i)
		text := fmt.Sprintf(divided, s.namespace, s.dir, setting, name, s.apiVersion, s.kind)
		if err := os.WriteFile(filepath.Join(dir, name+".sh"), []byte(text), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if !slices.Contains(s.hooks, name) {
			s.hooks = append(s.hooks, name)
		}
	}
	return version{dir, append(strings.Fields(args), "--namespace", s.namespace, "--kubernetes-events=false",
		"--leader-election-lease-duration", "6s")}
}

// run keeps a replica running, as Kubernetes does, until the function that it returns is called.
func (s *sharing) run(v version) (end func()) {
	ending, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ending.Err() == nil {
			s.mu.Lock()
			s.started++
			name := fmt.Sprint("r", s.started)
			s.mu.Unlock()
			op := testenv.Start(s.t, testenv.OperatorOptions{HooksDir: v.hooks, Kubeconfig: s.cluster.Kubeconfig, Args: v.args,
				Env: []string{"POD_NAME=" + name}})
			s.mu.Lock()
			s.live[name] = op
			s.mu.Unlock()
			stop := context.AfterFunc(ending, func() { op.Signal(syscall.SIGTERM) })
			status := op.Wait()
			stop()
			op.Expect(status)
			if status != 0 && status != 1 && status != -1 {
				s.t.Errorf("a replica ended with status %d", status)
			}
			s.mu.Lock()
			delete(s.live, name)
			s.mu.Unlock()
		}
	})
	return func() { cancel(); running.Wait() }
}

func (s *sharing) runAll(n int, v version) (end func()) {
	var ends []func()
	for range n {
		ends = append(ends, s.run(v))
	}
	return func() {
		for _, end := range ends { // one by one, as a Deployment does
			end()
		}
	}
}

// owners returns the live replica that serves each shard, by "i/N"; that of a leader is "leader".
func (s *sharing) owners() map[string]*testenv.Operator {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[string]*testenv.Operator{}
	for _, op := range s.live {
		for _, r := range op.Records() {
			if r.Has("This replica serves a shard") {
				owners[r.Fields["shard"]] = op
			}
			if r.Has(leads) {
				owners["leader"] = op
			}
		}
	}
	return owners
}

// until waits for a condition.
func (s *sharing) until(what string, holds func() bool) {
	s.t.Helper()
	late := time.Now().Add(test.Patience)
	for !holds() {
		if time.Now().After(late) {
			s.t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// untilServed waits until all shards have an owner, none of which is but.
func (s *sharing) untilServed(shards int, but *testenv.Operator) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d shards have owners", shards), func() bool {
		owners := s.owners()
		for i := range shards {
			if op := owners[fmt.Sprintf("%d/%d", i, shards)]; op == nil || op == but {
				return false
			}
		}
		return true
	})
}

// checkInsight checks what an owner and a standby show of themselves.
func (s *sharing) checkInsight() {
	s.t.Helper()
	owners := s.owners()
	shows := func(op *testenv.Operator, part string, command ...string) {
		s.t.Helper()
		if text := op.Ask(command...); !strings.Contains(text, part) {
			s.t.Errorf("%q does not show %q:\n%s", command, part, text)
		}
	}
	for i := range 3 {
		shard := fmt.Sprintf("%d/3", i)
		if owner := owners[shard]; owner != nil {
			shows(owner, "shard "+shard+" of division ", "status")
			if text := owner.Page("/metrics"); !strings.Contains(text, fmt.Sprintf(`,shard="%d",shards="3"} 1`, i)) {
				s.t.Errorf("shard_info of shard %s is not 1", shard)
			}
		}
	}
	s.mu.Lock()
	live := maps.Clone(s.live)
	s.mu.Unlock()
	for _, op := range live {
		owns := false
		for _, owner := range owners {
			owns = owns || owner == op
		}
		if !owns {
			op.UntilLog("This replica is a standby")
			shows(op, "standby of division ", "status")
			shows(op, "this replica is a standby", "why", "q0.sh")
			if text := op.Page("/readyz"); !strings.Contains(text, "standby of division ") {
				s.t.Errorf("/readyz of a standby is\n%s", text)
			}
		}
	}
}

// exemptOwner notes that hooks of a replica may outlive it.
func (s *sharing) exemptOwner(op *testenv.Operator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, other := range s.live {
		if other == op {
			s.exempt[name] = true
		}
	}
}

func (s *sharing) leases() (all []coordinationv1.Lease) {
	text, err := s.client.Get().AbsPath("/apis/coordination.k8s.io/v1/namespaces", s.namespace, "leases").DoRaw(s.t.Context())
	var list coordinationv1.LeaseList
	if err = errors.Join(err, json.Unmarshal(text, &list)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

func (s *sharing) deleteLease(name string) {
	err := s.client.Delete().AbsPath("/apis/coordination.k8s.io/v1/namespaces", s.namespace, "leases", name).Do(s.t.Context()).Error()
	if err != nil {
		s.t.Error(err)
	}
}

// received is one run.
type received struct {
	pod, shard   string
	began, ended int64
	// events and lists have the values by object.
	events, lists map[string][]int
}

func (s *sharing) read(hook string) (all []received) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, hook+".*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		if r, ok := s.runs[file]; ok {
			all = append(all, r)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
		r := received{events: map[string][]int{}, lists: map[string][]int{}}
		if _, err := fmt.Sscan(lines[0], &r.pod, &r.shard, &r.began, &r.ended); err != nil {
			s.t.Fatalf("%s: %v: %s", file, err, text)
		}
		for _, line := range lines[1:] {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				continue
			}
			value, _ := strconv.Atoi(fields[2])
			of := r.lists
			if fields[0] == "E" {
				of = r.events
			}
			of[fields[1]] = append(of[fields[1]], value)
		}
		s.runs[file] = r
		all = append(all, r)
	}
	return all
}

// untilDelivered waits until each hook has the last values of all objects.
func (s *sharing) untilDelivered() {
	s.t.Helper()
	for _, hook := range s.hooks {
		s.until("the last values of all objects are delivered to "+hook, func() bool {
			last := map[string]int{}
			for _, r := range s.read(hook) {
				for _, of := range []map[string][]int{r.events, r.lists} {
					for object, values := range of {
						last[object] = max(last[object], slices.Max(values))
					}
				}
			}
			for object, value := range s.values {
				if last[object] != value {
					return false
				}
			}
			return true
		})
	}
}

// judge checks all runs: each change was delivered by one process, or is in a Synchronization; and no object was in two runs at one time.
func (s *sharing) judge() {
	s.t.Helper()
	for _, hook := range s.hooks {
		runs := s.read(hook)
		type change struct {
			object string
			value  int
		}
		by := map[change]string{}
		listed := map[string]int{}
		for _, r := range runs {
			for object, values := range r.events {
				for _, value := range values {
					if other, ok := by[change{object, value}]; ok && other != r.pod {
						s.t.Errorf("%s: value %d of %s was delivered by %s and %s", hook, value, object, other, r.pod)
					}
					by[change{object, value}] = r.pod
				}
			}
			for object, values := range r.lists {
				listed[object] = max(listed[object], slices.Max(values))
			}
		}
		for object, last := range s.values {
			for value := 1; value <= last; value++ {
				if by[change{object, value}] == "" && listed[object] < value {
					s.t.Errorf("%s: value %d of %s was not delivered", hook, value, object)
				}
			}
		}
		for i, a := range runs {
			for _, b := range runs[:i] {
				if a.pod == b.pod || a.ended < b.began || b.ended < a.began || s.exempt[a.pod] || s.exempt[b.pod] {
					continue
				}
				for object := range a.events {
					if b.events[object] != nil || b.lists[object] != nil {
						s.t.Errorf("%s: %s and %s ran for %s at one time", hook, a.pod, b.pod, object)
					}
				}
				for object := range a.lists {
					if b.events[object] != nil || b.lists[object] != nil {
						s.t.Errorf("%s: %s and %s ran for %s at one time", hook, a.pod, b.pod, object)
					}
				}
			}
		}
		s.t.Logf("%s: %d runs", hook, len(runs))
	}
}

// Four replicas share objects of namespaces with similar names in three shards. Owners are killed, stopped and terminated, and Leases are
// deleted, while objects change.
func TestShards(t *testing.T) {
	switch {
	case os.Getenv("CHAOS") != "":
		loseOwners(t, newSharing(t, testenv.Shared(t), false, 60, 500), 5)
	case !test.Long():
		loseOwners(t, newSharing(t, testenv.Shared(t), false, 60, 500), 1)
	default:
		for _, gate := range []bool{false, true} {
			for _, custom := range []bool{false, true} {
				t.Run(fmt.Sprintf("gate %t, custom resources %t", gate, custom), func(t *testing.T) {
					cluster := testenv.Own(t, fmt.Sprintf("--feature-gates=ShardedListAndWatch=%t", gate))
					loseOwners(t, newSharing(t, cluster, custom, 300, 10_000), 20)
				})
			}
		}
	}
}

// loseOwners has rounds of all faults.
func loseOwners(t *testing.T, s *sharing, rounds int) {
	end := s.runAll(4, s.version("--shards 3", "shardBy: namespace", "shardBy: object"))
	defer end()
	s.untilServed(3, nil)
	s.checkInsight()
	ended := s.writes()
	faults := []struct {
		name string
		do   func(owner *testenv.Operator)
	}{
		{"SIGKILL", func(op *testenv.Operator) { s.exemptOwner(op); op.Signal(syscall.SIGKILL); s.untilServed(3, op) }},
		{"SIGSTOP", func(op *testenv.Operator) {
			s.exemptOwner(op)
			op.Signal(syscall.SIGSTOP)
			shard := op.UntilLog("This replica serves a shard").Fields["shard"]
			s.until("another replica serves the shard", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, other := range s.live {
					if other != op && slices.ContainsFunc(other.Records(), func(r testenv.Record) bool {
						return r.Has("This replica serves a shard", "shard", shard)
					}) {
						return true
					}
				}
				return false
			})
			op.Signal(syscall.SIGCONT)
			op.Wait()
			s.untilServed(3, op)
		}},
		{"SIGTERM", func(op *testenv.Operator) { op.Signal(syscall.SIGTERM); s.untilServed(3, op) }},
		{"a deleted Lease", func(op *testenv.Operator) {
			shard := op.UntilLog("This replica serves a shard").Fields["shard"]
			for _, lease := range s.leases() {
				if lease.Annotations["shell-operator/shard"] == shard {
					s.deleteLease(lease.Name)
				}
			}
			op.Wait()
			s.untilServed(3, op)
		}},
		{"all Leases deleted", func(op *testenv.Operator) {
			for _, lease := range s.leases() {
				if metav1.HasLabel(lease.ObjectMeta, "shell-operator/shards") {
					s.deleteLease(lease.Name)
				}
			}
			op.Wait()
			s.untilServed(3, op)
		}},
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		for _, fault := range faults {
			var owner *testenv.Operator
			s.until("an owner", func() bool { owner = s.owners()[fmt.Sprintf("%d/3", random.IntN(3))]; return owner != nil })
			began := time.Now()
			fault.do(owner)
			t.Logf("after %s all shards were served within %s", fault.name, time.Since(began).Round(time.Millisecond))
		}
	}
	ended()
	s.untilDelivered()
	end()
	s.judge()
}

// Replicas are replaced as by a Deployment: from leader election to shards, to more of them, to another shardBy, and back. The last step is
// a reload, which ends each replica.
func TestShardsRolledOut(t *testing.T) {
	s := newSharing(t, testenv.Shared(t), false, 12, 60)
	end := s.runAll(2, s.version("--leader-election", "shardBy: namespace"))
	s.until("a leader", func() bool { return s.owners()["leader"] != nil })
	ended := s.writes()
	rounds := 1
	if test.Long() {
		rounds = 10
	}
	for range rounds {
		for _, step := range []struct {
			replicas, shards int
			args, by         string
		}{
			{4, 3, "--shards 3", "shardBy: namespace"},
			{5, 4, "--shards 4", "shardBy: namespace"},
			{4, 4, "--shards 4", "shardBy: object"},
			{2, 0, "--leader-election", "shardBy: object"},
		} {
			before := end
			end = s.runAll(step.replicas, s.version(step.args, step.by))
			before()
			began := time.Now()
			if step.shards == 0 {
				s.until("a leader", func() bool { return s.owners()["leader"] != nil })
			} else {
				s.untilServed(step.shards, nil)
			}
			t.Logf("%s %s: all is served %s after the last old replica has ended", step.args, step.by, time.Since(began).Round(time.Millisecond))
		}
	}
	ended()
	s.untilDelivered()
	end()
	s.judge()
}
