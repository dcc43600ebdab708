package applyset

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// randomSets are sets of owners in namespaces of their own, some of whose members are in a common namespace, and a stranger that changes
// everything.
type randomSets struct {
	t       *testing.T
	cluster *testenv.Cluster
	client  rest.Interface
	random  *rand.Rand
	// own is the namespace of the operator, common the namespace that all sets share.
	own, common string
	process     *restorer
	minutes     atomic.Int64
	owners      []*randomOwner
	made        int
	// ended are the uids of owners that ended alone, by namespace.
	ended map[string]string

	// mu is held by changes of the stranger. foreign are the objects of the stranger, by namespace and name: their uid and data.
	mu      sync.Mutex
	foreign map[[2]string][2]string
	// story is what has happened.
	story []string
}

func (w *randomSets) note(format string, args ...any) {
	w.story = append(w.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// fail prints what has happened in a namespace.
func (w *randomSets) fail(namespace, problem string) {
	w.t.Helper()
	for _, line := range w.story {
		if strings.Contains(line, namespace) || strings.Contains(line, "process") {
			w.t.Log(line)
		}
	}
	w.t.Fatal(problem)
}

// randomOwner is the owner of one set.
type randomOwner struct {
	namespace, uid string
	// want are the values of the members, by name; those that begin with "common" are in the common namespace.
	want map[string]string
	// common: there may be a member in the common namespace.
	common bool
}

func (w *randomSets) post(path, manifest string) (found struct{ Metadata struct{ UID string } }, err error) {
	text, err := kube.Send(w.t.Context(),
		w.client.Post().AbsPath(path).Param("fieldManager", "stranger").SetHeader("Content-Type", "application/json").Body([]byte(manifest)))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}

func (w *randomSets) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *randomSets) addOwner() {
	w.made++
	o := &randomOwner{namespace: fmt.Sprintf("%s-%d", w.own, w.made), want: map[string]string{}}
	_, err := w.post("/api/v1/namespaces", fmt.Sprintf(`{"metadata": {"name": %q}}`, o.namespace))
	w.must(err)
	made, err := w.post("/api/v1/namespaces/"+o.namespace+"/configmaps", `{"metadata": {"name": "owner"}}`)
	w.must(err)
	o.uid = made.Metadata.UID
	w.owners = append(w.owners, o)
}

// place returns the namespace of a member.
func (o *randomOwner) place(w *randomSets, name string) string {
	if strings.HasPrefix(name, "common") {
		return w.common
	}
	return o.namespace
}

// names returns the names of all members that an owner may have.
func (o *randomOwner) names() []string {
	return []string{"a", "b", "c", "d", "common-" + o.namespace}
}

func (w *randomSets) isForeign(namespace, name string) bool {
	_, foreign := w.foreign[[2]string{namespace, name}]
	return foreign
}

func (o *randomOwner) document(w *randomSets) string {
	var objects []string
	for name, value := range o.want {
		objects = append(objects, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {v: %q}}`, name,
			o.place(w, name), value))
	}
	return fmt.Sprintf(`{operation: Sync, set: web, allowEmpty: true, owner: {apiVersion: v1, kind: ConfigMap, namespace: %s, name: owner}, `+
		`objects: [%s]}`, o.namespace, strings.Join(objects, ","))
}

// sync makes a set complete, as a queue does: it repeats what fails.
func (w *randomSets) sync(o *randomOwner) {
	w.t.Helper()
	for deadline := time.Now().Add(test.Patience); ; {
		err := w.process.sync(w.t.Context(), "web.sh", o.document(w))
		if err == nil {
			w.note("%s: a Sync of %v has succeeded", o.namespace, o.want)
			return
		}
		if time.Now().After(deadline) {
			w.fail(o.namespace, fmt.Sprintf("the set of %s with %v: %v", o.namespace, o.want, err))
		}
	}
}

// disturb is one change by the stranger. The choice is made before, because changes are concurrent.
func (w *randomSets) disturb(o *randomOwner, choice, pick, value int) {
	name := o.names()[pick%len(o.names())]
	namespace := o.place(w, name)
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	at := [2]string{namespace, name}
	w.mu.Lock()
	defer w.mu.Unlock()
	patch := func(format string, args ...any) {
		if w.isForeign(namespace, name) {
			return
		}
		_, err := kube.Send(w.t.Context(), w.client.Patch(types.MergePatchType).AbsPath(path, name).Param("fieldManager", "stranger").
			Body(fmt.Appendf(nil, format, args...)))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			w.t.Errorf("the stranger cannot change %v: %v", at, err)
		}
		w.note("%v: the stranger changes it by %s: %v", at, fmt.Sprintf(format, args...), err)
	}
	switch choice {
	case 0:
		patch(`{"data": {"v": "by hand %d"}}`, value)
	case 1:
		patch(`{"data": {"theirs": "%d"}, "metadata": {"annotations": {"theirs": "%d"}}}`, value, value)
	case 2:
		patch(`{"metadata": {"labels": {%q: "other"}}}`, partOfLabel)
	case 3:
		patch(`{"metadata": {"labels": {%q: null}}}`, partOfLabel)
	case 4:
		other := w.owners[value%len(w.owners)].namespace
		patch(`{"metadata": {"labels": {%q: %q}}}`, partOfLabel, w.names(other).id)
	case 5:
		patch(`{"metadata": {"ownerReferences": null}}`)
	case 6, 7: // deletes what is there
		delete(w.foreign, at)
		_, err := kube.Send(w.t.Context(), w.client.Delete().AbsPath(path, name))
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Errorf("the stranger cannot delete %v: %v", at, err)
		}
		w.note("%v: the stranger deletes it: %v", at, err)
	case 8:
		made, err := w.post(path, fmt.Sprintf(`{"metadata": {"name": %q}, "data": {"theirs": "%d"}}`, name, value))
		w.note("%v: the stranger creates it: %v", at, err)
		if err == nil {
			w.foreign[at] = [2]string{made.Metadata.UID, fmt.Sprintf(`{"theirs":"%d"}`, value)}
		}
	}
}

func (w *randomSets) names(namespace string) names {
	o := w.process.opts
	return namesOf(o.Instance, o.Namespace, "web.sh", "web", &SetOwner{Kind: "ConfigMap", Namespace: namespace, Name: "owner"})
}

// round changes what an owner wants, while the stranger changes objects.
func (w *randomSets) round() {
	o := w.owners[w.random.IntN(len(w.owners))]
	clear(o.want)
	for _, name := range o.names() {
		if w.random.IntN(2) == 0 && !w.isForeign(o.place(w, name), name) {
			o.want[name] = strconv.Itoa(w.random.IntN(3))
		}
	}
	var disturbing sync.WaitGroup
	for range w.random.IntN(5) {
		victim, choice, pick, value := w.owners[w.random.IntN(len(w.owners))], w.random.IntN(9), w.random.IntN(1000), w.random.IntN(1000)
		disturbing.Go(func() { w.disturb(victim, choice, pick, value) })
	}
	_, common := o.want["common-"+o.namespace]
	o.common = o.common || common
	w.mu.Lock()
	w.note("%s: a Sync of %v begins", o.namespace, o.want)
	w.mu.Unlock()
	err := w.process.sync(w.t.Context(), "web.sh", o.document(w))
	disturbing.Wait()
	w.note("%s: a Sync of %v has ended: %v", o.namespace, o.want, err)
	o.common = common || err != nil && o.common
	if err != nil && !strings.Contains(err.Error(), "it exists") && !strings.Contains(err.Error(), "conflict") &&
		!strings.Contains(err.Error(), "being deleted") && !strings.Contains(err.Error(), "belongs to another set") &&
		!strings.Contains(err.Error(), "existed for a moment") {
		w.t.Logf("a Sync failed: %v", err)
	}
}

// end ends an owner: with its namespace, or alone. Members in another namespace need a last Sync, as a hook with a finalizer sends it.
func (w *randomSets) end() {
	at := w.random.IntN(len(w.owners))
	o := w.owners[at]
	whole := w.random.IntN(2) == 0
	path := []string{"/api/v1/namespaces", o.namespace}
	if !whole {
		path = append(path, "configmaps", "owner")
	}
	if o.common || w.random.IntN(2) == 0 {
		clear(o.want)
		w.sync(o)
	}
	_, err := kube.Send(w.t.Context(), w.client.Delete().AbsPath(path...))
	w.must(err)
	for place := range w.foreign {
		if place[0] == o.namespace {
			delete(w.foreign, place)
		}
	}
	if !whole {
		w.ended[o.namespace] = o.uid
	}
	w.note("%s: it is deleted", strings.Join(path, "/"))
	w.owners = slices.Delete(w.owners, at, at+1)
	w.addOwner()
}

// collect deletes the objects of owners that have ended, as the garbage collector does: an API server in memory has none. Then it sweeps
// the records of their sets, as an operator does once an hour.
func (w *randomSets) collect() {
	for namespace, uid := range w.ended {
		for name, o := range configMaps(w.t, w.client, namespace) {
			if slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return string(r.UID) == uid }) {
				_, _ = kube.Send(w.t.Context(), w.client.Delete().AbsPath("/api/v1/namespaces", namespace, "configmaps", name))
			}
		}
	}
	w.must(w.process.Sweep(w.t.Context(), slog.New(slog.DiscardHandler)))
}

// quiet waits until everything is as wanted, and nothing else is kept or left.
func (w *randomSets) quiet() {
	w.t.Helper()
	living := 0
	for _, o := range w.owners {
		for name := range o.want {
			if w.isForeign(o.place(w, name), name) {
				delete(o.want, name)
			}
		}
		w.sync(o)
		if len(o.want) > 0 {
			living++
		}
	}
	problem := ""
	for deadline := time.Now().Add(test.Patience); ; {
		w.collect()
		if problem = w.problem(living); problem == "" {
			return
		}
		if time.Now().After(deadline) {
			w.fail("", problem)
		}
	}
}

// problem returns what is not as wanted.
func (w *randomSets) problem(living int) string {
	if sets, watches := w.process.kept(); sets != living || watches > 1 || watches == 0 && living > 0 {
		return fmt.Sprintf("%d sets and %d watches are kept for %d owners", sets, watches, living)
	}
	expected := map[[2]string]string{}
	for _, o := range w.owners {
		for name, value := range o.want {
			expected[[2]string{o.place(w, name), name}] = value + " " + w.names(o.namespace).id
		}
	}
	parents := 0
	for _, namespace := range append([]string{w.own, w.common}, func() (all []string) {
		for _, o := range w.owners {
			all = append(all, o.namespace)
		}
		return all
	}()...) {
		text, err := kube.Send(w.t.Context(), w.client.Get().AbsPath("/api/v1/namespaces", namespace, "configmaps"))
		if err != nil {
			return err.Error()
		}
		var list struct {
			Items []struct {
				Metadata struct {
					UID, Name string
					Labels    map[string]string
				}
				Data map[string]string
			}
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return err.Error()
		}
		for _, item := range list.Items {
			at := [2]string{namespace, item.Metadata.Name}
			data, _ := json.Marshal(item.Data)
			foreign, isForeign := w.foreign[at]
			switch {
			case item.Metadata.Name == "kube-root-ca.crt", item.Metadata.Name == "owner":
			case item.Metadata.Labels[idLabel] != "":
				parents++
			case isForeign:
				if is := [2]string{item.Metadata.UID, string(data)}; is != foreign || item.Metadata.Labels[partOfLabel] != "" {
					return fmt.Sprintf("the stranger's object %v is %v with the labels %v, and was %v", at, is, item.Metadata.Labels, foreign)
				}
			case expected[at] != item.Data["v"]+" "+item.Metadata.Labels[partOfLabel]:
				return fmt.Sprintf("%v is %s with the labels %v, and not %q", at, data, item.Metadata.Labels, expected[at])
			default:
				delete(expected, at)
			}
			if isForeign {
				continue
			}
		}
	}
	if len(expected) > 0 {
		return fmt.Sprintf("missing: %v", expected)
	}
	if parents != living {
		return fmt.Sprintf("%d parents for %d sets", parents, living)
	}
	return ""
}

// Whatever a stranger does to members, and whichever owners and namespaces end: afterwards there are exactly the wanted objects and those
// of the stranger, as it has made them, and nothing is kept of what has ended.
func TestRandomSets(t *testing.T) {
	cluster := inMemory(t)
	rounds := 100
	if test.Long() {
		rounds = 1000
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	own, common := cluster.Namespace(t), cluster.Namespace(t)
	w := &randomSets{t: t, cluster: cluster, client: testenv.Client(t, cluster.Config(t)), random: rand.New(rand.NewPCG(seed, 0)), own: own,
		common: common, foreign: map[[2]string][2]string{}, ended: map[string]string{}}
	start := func() {
		// Each reading of the clock is two hours later, so no restore is delayed.
		w.process = newRestorerAt(t, cluster, own, func() time.Time {
			return time.Unix(0, 0).Add(time.Duration(w.minutes.Add(120)) * time.Minute)
		})
		w.process.ignoreReports(t)
	}
	start()
	for range 3 {
		w.addOwner()
	}
	for i := range rounds {
		switch w.random.IntN(20) {
		case 0:
			w.end()
		case 1:
			w.quiet()
		case 2: // a member that is relabelled before the first Sync of a process is lost, so nothing is changed then
			w.quiet()
			w.process.stop()
			start()
			w.note("another process has begun")
			w.quiet()
		default:
			w.round()
		}
		if t.Failed() {
			t.Fatalf("after round %d", i)
		}
	}
	w.quiet()
	for _, o := range w.owners {
		clear(o.want)
		w.sync(o)
	}
	w.quiet()
}
