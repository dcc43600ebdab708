package adversary

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// world is all that belongs to one run of a workload.
type world struct {
	t           *testing.T
	load        *workload
	cluster     *testenv.Cluster
	client      dynamic.Interface
	disturbance disturbance
	// reference has what the undisturbed run left; nil during that run.
	reference *reference

	// namespace is called NS in plans, in the script, and in states; words has the words of the script and their meaning here.
	namespace  string
	namespaces []string
	words      *strings.Replacer
	hooks      string
	env        []string
	// contexts is a file to which hooks write what they get.
	contexts string
	// shop and mysql are what hooks call.
	shop  *shop
	mysql *test.MysqlServer

	// made are the states of a reference; differs is how the last state that was read differs from the last state of the reference.
	made    []state
	differs string

	ending context.Context
	end    context.CancelFunc
	// running are the goroutines that start replicas again.
	running sync.WaitGroup

	mu     sync.Mutex
	live   map[int]*replica
	starts int
	// step is the last one of the script that has begun and is not settle, settled the number of times that it has settled.
	step, settled int

	writes []write
	// passed counts the writes of each place, versions has the newest version of each object that an answer had.
	passed   map[string]int
	versions map[string]string
	// touched are the resources that were written.
	touched map[schema.GroupVersionResource]bool
	// sets has the names that parents of sets have in plans: the real ones have a hash of the namespace.
	sets map[string]string
}

// place names a write: by object, verb and count for that object, never by a global order, because lanes are parallel.
type place struct {
	verb, kind, object string
	count              int
}

func (p place) String() string { return fmt.Sprintf("%s,%s,%s,%d", p.verb, p.kind, p.object, p.count) }

// key is the place without its count.
func (p place) key() string { return p.verb + "," + p.kind + "," + p.object }

// write is a request of the operator, or of a hook, that may change something.
type write struct {
	place
	status int
	// effect is created, deleted or changed; empty if there was none.
	effect string
	fields string
	hooks  bool
	// settled is the number of times that the script had settled.
	settled int
}

// replica is one process of an operator.
type replica struct {
	w       *world
	number  int
	op      *testenv.Operator
	gateway *testenv.Gateway
	// dead: the process was killed. What its hooks still send is broken off: in a container they have ended with it.
	dead atomic.Bool
	// expected is true if the process may end.
	expected atomic.Bool
}

func newWorld(t *testing.T, load *workload, cluster *testenv.Cluster, d disturbance) *world {
	t.Helper()
	w := &world{t: t, load: load, cluster: cluster, disturbance: d, live: map[int]*replica{}, passed: map[string]int{},
		versions: map[string]string{}, sets: map[string]string{}, touched: map[schema.GroupVersionResource]bool{}}
	config := cluster.Config(t)
	var err error
	if w.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	w.namespace = cluster.Namespace(t)
	w.namespaces = []string{w.namespace}
	words := []string{"$NS", w.namespace}
	for word, means := range load.Words {
		words = append(words, word, strings.ReplaceAll(means, "$NS", w.namespace))
	}
	w.words = strings.NewReplacer(words...)
	for n := 2; n <= load.Namespaces; n++ {
		name := fmt.Sprint(w.namespace, "-", n)
		w.namespaces = append(w.namespaces, name)
		w.do(step{Do: "create", Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}})
	}
	if load.CRDs != "" {
		w.installCRDs()
	}
	w.hooks = w.installHooks()
	w.env = []string{"WATCH_NAMESPACE=" + w.namespace, "NS=" + w.namespace, "SHELL_OPERATOR_NAMESPACE=" + w.namespace,
		"PYTHONPATH=" + filepath.Join(test.Root(), "sdk", "python")}
	for _, variable := range load.Env {
		w.env = append(w.env, w.words.Replace(variable))
	}
	w.contexts = filepath.Join(t.TempDir(), "contexts")
	w.env = append(w.env, "CONTEXTS="+w.contexts)
	w.startServers()
	w.ending, w.end = context.WithCancel(context.Background())
	return w
}

// launch starts the replicas, each again when it has ended.
func (w *world) launch() {
	for n := range w.load.Replicas {
		w.start(n)
	}
	for n := range w.load.Replicas {
		w.running.Go(func() {
			for w.ending.Err() == nil {
				r := w.replica(n)
				<-r.op.Ended()
				status := r.op.Wait()
				r.dead.Store(true)
				r.gateway.Cut()
				r.op.Expect(status)
				if w.ending.Err() != nil {
					return
				}
				if !r.expected.Load() && !(status == 1 && w.load.Replicas > 1) { // a Lease may be lost on a busy machine
					w.t.Errorf("a replica ended with status %d\n%s", status, r.op.Errors.String())
				}
				w.start(n)
			}
		})
	}
}

func (w *world) start(n int) {
	w.mu.Lock()
	w.starts++
	name := fmt.Sprint("replica-", w.starts)
	w.mu.Unlock()
	gateway, kubeconfig := testenv.NewGateway(w.t, w.cluster.Kubeconfig, 1)
	r := &replica{w: w, number: n, gateway: gateway}
	gateway.Intercept(r.serve)
	args := append([]string{"--namespace", w.namespace, "--retry-min-delay", "100ms", "--retry-max-delay", "1s", "--kubernetes-events=false",
		"--validating-webhook-configuration-name", "hooks-" + w.namespace}, w.load.Args...)
	op := testenv.Start(w.t, testenv.OperatorOptions{HooksDir: w.hooks, Kubeconfig: kubeconfig, Args: args, Binary: program,
		Env: append(slices.Clone(w.env), "POD_NAME="+name)})
	w.mu.Lock()
	r.op = op
	w.live[n] = r
	w.mu.Unlock()
}

// stop ends the replicas. It comes before the clean-up of the test, which expects them to run.
func (w *world) stop() {
	if d := w.disturbance; d != nil {
		d.end(w)
	}
	w.end()
	w.mu.Lock()
	live := slices.Collect(maps.Values(w.live))
	w.mu.Unlock()
	for _, r := range live {
		r.op.Signal(syscall.SIGTERM)
	}
	w.running.Wait()
}

// kill ends the process as SIGKILL does in a container: with its hooks.
func (r *replica) kill() {
	r.expected.Store(true)
	r.dead.Store(true)
	r.op.Signal(syscall.SIGKILL)
}

// serve is the Interceptor of a replica's gateway.
func (r *replica) serve(rw http.ResponseWriter, req *http.Request, next http.Handler) {
	w := r.w
	q, ok := parse(req)
	if r.dead.Load() {
		panic(http.ErrAbortHandler)
	}
	switch {
	case !ok:
		next.ServeHTTP(rw, req)
	case q.reads():
		if w.disturbance == nil {
			next.ServeHTTP(rw, req)
			return
		}
		w.disturbance.read(r, &q, rw, req, next)
	default:
		q.read(req)
		// The API server answers when the process has gone, too.
		kept := req.WithContext(context.WithoutCancel(req.Context()))
		a := w.write(r, &q, func() *answer { return ask(next, kept) })
		if a == nil || r.dead.Load() {
			panic(http.ErrAbortHandler)
		}
		a.send(rw)
	}
}

// write sends a write, unless the disturbance does something else.
func (w *world) write(r *replica, q *request, send func() *answer) *answer {
	w.mu.Lock()
	w.nameSet(q)
	p := place{verb: q.verb, kind: strings.ReplaceAll(q.kind(), w.namespace, "NS"), object: w.named(q.namespace, q.name)}
	p.count = w.passed[p.key()] + 1
	w.mu.Unlock()
	record := func() *answer {
		w.mu.Lock()
		w.passed[p.key()]++
		w.touched[schema.GroupVersionResource{Group: w.scriptGroup(q.group), Version: q.version, Resource: q.resource}] = true
		at := len(w.writes)
		w.writes = append(w.writes, write{place: p, fields: q.fields(), hooks: q.hooks, settled: w.settled})
		w.mu.Unlock()
		a := send()
		w.mu.Lock()
		w.writes[at].status, w.writes[at].effect = a.status, w.effect(q, a)
		w.mu.Unlock()
		return a
	}
	if w.disturbance == nil {
		return record()
	}
	return w.disturbance.write(r, p, q, record)
}

// effect requires mu. It compares with what answers had before: what another client has changed meanwhile counts as an effect, too.
func (w *world) effect(q *request, a *answer) string {
	if a.status/100 != 2 {
		return ""
	}
	o := a.object()
	before := w.versions[o.Metadata.UID]
	w.versions[o.Metadata.UID] = o.Metadata.ResourceVersion
	switch {
	case a.status == http.StatusCreated:
		return "created"
	case before != "" && before == o.Metadata.ResourceVersion:
		return ""
	case q.verb == "delete":
		return "deleted"
	default:
		return "changed"
	}
}

var (
	setParent = regexp.MustCompile(`^(shell-operator-.+-)[0-9a-f]{10}$`)
	setOwner  = regexp.MustCompile(`"shell-operator/owner": ?"([^"]*)"`)
	setOf     = regexp.MustCompile(`"shell-operator/set": ?"`)
)

// nameSet requires mu. It remembers the owner of the set whose parent is written.
func (w *world) nameSet(q *request) {
	if setParent.MatchString(q.name) && setOf.Match(q.body) {
		owner := ""
		if found := setOwner.FindSubmatch(q.body); found != nil {
			owner = string(found[1])
		}
		w.sets[q.name] = setName(q.name, owner)
	}
}

// setName replaces the hash in the name of a parent by its owner.
func setName(parent, owner string) string {
	return setParent.ReplaceAllString(parent, "${1}of-") + owner[strings.LastIndex(owner, "/")+1:]
}

// named requires mu. It is the name of an object in plans.
func (w *world) named(namespace, name string) string {
	if set := w.sets[name]; set != "" {
		name = set
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.ReplaceAll(name, w.namespace, "NS")
}

// scriptGroup is a group as the script has it.
func (w *world) scriptGroup(group string) string {
	if w.load.Words != nil {
		return strings.TrimPrefix(group, w.namespace+".")
	}
	return strings.ReplaceAll(group, w.namespace, "$NS")
}

// replica is the process of a number that runs.
func (w *world) replica(number int) *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[number]
}

// replicas are those that run.
func (w *world) replicas() []*replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.live))
}

// await returns true when a condition holds. It is checked from time to time: controllers write without the gateway.
func (w *world) await(patience time.Duration, holds func() bool) bool {
	for late := time.Now().Add(patience); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}
