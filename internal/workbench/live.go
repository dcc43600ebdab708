package workbench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/workbench/memory"
)

// initialNamespaces are those that every cluster has.
var initialNamespaces = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

// Time limits of a case on a real cluster.
const (
	writeTimeout   = 30 * time.Second
	cleanupTimeout = 2 * time.Minute
	// goneTimeout is for finalizers of others.
	goneTimeout = time.Minute
)

// live is a real cluster as the store of a case. The simulated cluster mirrors the objects of the case, as they are read back.
type live struct {
	*cluster
	server *memory.Server
	// marked are the paths of objects that are deleted in the mirror only: without a finalizer they would be gone.
	marked map[string]bool

	mu sync.Mutex
	// created are what the case and its operations have created, in order. changed are the paths of objects that they have written.
	created []createdObject
	changed map[string]bool
}

// createdObject is an object to remove at the end.
type createdObject struct {
	path string
	uid  types.UID
}

func newLive(cl *kube.Cluster, server *memory.Server) (*live, error) {
	l := &live{server: server, marked: map[string]bool{}, changed: map[string]bool{}}
	config := *cl.Config
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{l, next} })
	config.QPS = -1
	own := *cl
	own.Config = &config
	var err error
	l.cluster, err = newCluster(&own)
	return l, err
}

// recorder records what is created and changed. A write is sent to its end, also after a signal: only its response has the uid.
type recorder struct {
	*live
	next http.RoundTripper
}

func (r recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	if !writes(q) {
		return r.next.RoundTrip(q)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), writeTimeout)
	defer cancel()
	response, body, err := answered(r.next.RoundTrip(q.WithContext(ctx)))
	if err != nil || response.StatusCode >= http.StatusMultipleChoices || q.Method == http.MethodDelete {
		return response, err
	}
	var object struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fmt.Errorf("cannot read the response to %s %s: %w", q.Method, q.URL.Path, err)
	}
	path := withoutSubresource(q.URL.Path)
	whole := path == q.URL.Path
	if _, _, name := pathParts(path); name == "" {
		path += "/" + object.Metadata.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[path] = true
	if whole && response.StatusCode == http.StatusCreated {
		r.created = append(r.created, createdObject{path, object.Metadata.UID})
	}
	return response, nil
}

func withoutSubresource(path string) string {
	res, namespace, name := pathParts(path)
	if name == "" {
		return path
	}
	return strings.Join(append(kube.Resource{GroupVersionResource: res, Namespaced: namespace != ""}.Path(namespace), name), "/")
}

// prepare fails if anything of a case exists, and creates the namespaces and kinds of its objects.
func (l *live) prepare(ctx context.Context, manifests []manifest) error {
	var namespaces []string
	defined := map[string]bool{}
	for _, m := range manifests {
		for _, k := range crdKinds(m.text) {
			l.server.Learn(k)
			defined[k.GroupVersion().String()+"/"+k.Kind] = true
		}
	}
	for _, m := range manifests {
		h, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		k, known := l.server.Resolve(h.APIVersion, h.Kind)
		if !known {
			res, err := l.resolver.Resolve(ctx, h.APIVersion, h.Kind)
			if err != nil {
				return fmt.Errorf("%s: %w", m.path, err)
			}
			k = memory.Kind{Resource: res, Guessed: true}
			l.server.Learn(k)
		}
		if k.Namespaced {
			h.Metadata.Namespace = cmp.Or(h.Metadata.Namespace, "default")
			namespaces = append(namespaces, h.Metadata.Namespace)
		}
		if isInitial(&h) || defined[h.APIVersion+"/"+h.Kind] {
			continue
		}
		if err := l.absent(ctx, k.Resource, h.Metadata.Namespace, h.Metadata.Name); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	slices.Sort(namespaces)
	for _, name := range slices.Compact(namespaces) {
		if slices.Contains(initialNamespaces, name) {
			continue
		}
		if err := l.absent(ctx, namespaceResource, "", name); err != nil {
			return err
		}
		if !slices.ContainsFunc(manifests, func(m manifest) bool {
			h, err := headOf(m.text)
			return err == nil && h.Kind == "Namespace" && h.Metadata.Name == name
		}) {
			if err := l.post(ctx, namespaceResource, "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}); err != nil {
				return fmt.Errorf("cannot create namespace %q: %w", name, err)
			}
		}
	}
	return nil
}

func isInitial(h *head) bool {
	return h.Kind == "Namespace" && slices.Contains(initialNamespaces, h.Metadata.Name)
}

// absent fails for an object that exists.
func (l *live) absent(ctx context.Context, res kube.Resource, namespace, name string) error {
	_, err := l.get(ctx, res, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("cannot check whether %s exists: %w", refOf(res, namespace, name), err)
	}
	return fmt.Errorf("%s exists in the cluster already: a case creates its objects and namespaces and deletes them; choose another name, or delete it", refOf(res, namespace, name))
}

func refOf(res kube.Resource, namespace, name string) string {
	return (&memory.Object{Kind: memory.Kind{Resource: res}, Namespace: namespace, Name: name}).Ref()
}

func (l *live) post(ctx context.Context, res kube.Resource, namespace string, tree map[string]any) error {
	body, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	_, err = kube.Send(ctx, l.client.Post().AbsPath(res.Path(namespace)...).SetHeader("Content-Type", "application/json").Body(body))
	return err
}

// target is an object of a manifest.
type target struct {
	kind            memory.Kind
	namespace, name string
	tree            map[string]any
}

func (l *live) target(text []byte) (t target, err error) {
	h, err := headOf(text)
	if err != nil {
		return t, err
	}
	k, known := l.server.Resolve(h.APIVersion, h.Kind)
	if !known {
		return t, fmt.Errorf("the kind %q of %q is not known", h.Kind, h.APIVersion)
	}
	t = target{kind: k, namespace: h.Metadata.Namespace, name: h.Metadata.Name}
	if k.Namespaced {
		t.namespace = cmp.Or(t.namespace, "default")
	}
	if err := json.Unmarshal(text, &t.tree); err != nil {
		return t, err
	}
	metadata, _ := t.tree["metadata"].(map[string]any)
	for _, field := range append(slices.Clone(noise), "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink") {
		delete(metadata, field)
	}
	return t, nil
}

func (t *target) path() []string { return append(t.kind.Path(t.namespace), t.name) }

// add creates an object, and its status.
func (l *live) add(ctx context.Context, text []byte) error {
	t, err := l.target(text)
	if err != nil {
		return err
	}
	if h, err := headOf(text); err == nil && !isInitial(&h) {
		if err := l.post(ctx, t.kind.Resource, t.namespace, t.tree); err != nil {
			return fmt.Errorf("cannot create %s: %w", refOf(t.kind.Resource, t.namespace, t.name), err)
		}
	}
	if len(crdKinds(text)) > 0 {
		if err := l.established(ctx, &t); err != nil {
			return err
		}
	}
	if err := l.status(ctx, &t); err != nil {
		return err
	}
	return l.mirror(ctx, strings.Join(t.path(), "/"))
}

// replace gives an object a new version.
func (l *live) replace(ctx context.Context, text []byte) error {
	t, err := l.target(text)
	if err != nil {
		return err
	}
	if _, err := l.server.Find(refOf(t.kind.Resource, t.namespace, t.name)); err != nil {
		return err
	}
	if err := l.put(ctx, &t, ""); err != nil {
		return fmt.Errorf("cannot modify %s: %w", refOf(t.kind.Resource, t.namespace, t.name), err)
	}
	if err := l.status(ctx, &t); err != nil {
		return err
	}
	return l.mirror(ctx, strings.Join(t.path(), "/"))
}

// put replaces an object, or its status.
func (l *live) put(ctx context.Context, t *target, subresource string) error {
	current, err := l.get(ctx, t.kind.Resource, t.namespace, t.name)
	if err != nil {
		return err
	}
	var version struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(current, &version); err != nil {
		return err
	}
	tree := maps.Clone(t.tree)
	metadata, _ := tree["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["resourceVersion"], tree["metadata"] = version.Metadata.ResourceVersion, metadata
	body, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	path := t.path()
	if subresource != "" {
		path = append(path, subresource)
	}
	_, err = kube.Send(ctx, l.client.Put().AbsPath(path...).SetHeader("Content-Type", "application/json").Body(body))
	return err
}

// status writes the status of an object, if it is a subresource.
func (l *live) status(ctx context.Context, t *target) error {
	if t.tree["status"] == nil {
		return nil
	}
	text, err := l.get(ctx, t.kind.Resource, t.namespace, t.name)
	if err != nil {
		return err
	}
	var current map[string]any
	if err := json.Unmarshal(text, &current); err != nil {
		return err
	}
	if reflect.DeepEqual(current["status"], t.tree["status"]) {
		return nil
	}
	if err := l.put(ctx, t, "status"); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot write the status of %s: %w", refOf(t.kind.Resource, t.namespace, t.name), err)
	}
	return nil
}

// established waits until a CRD is served.
func (l *live) established(ctx context.Context, t *target) error {
	return l.poll(ctx, goneTimeout, func() (bool, error) {
		text, err := l.get(ctx, t.kind.Resource, "", t.name)
		if err != nil {
			return false, err
		}
		var crd struct {
			Status struct{ Conditions []metav1.Condition }
		}
		if err := json.Unmarshal(text, &crd); err != nil {
			return false, err
		}
		return slices.ContainsFunc(crd.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Established" && c.Status == metav1.ConditionTrue }), nil
	}, fmt.Sprintf("the CRD %s is not established", t.name))
}

// poll calls done with growing pauses until it returns true.
func (l *live) poll(ctx context.Context, limit time.Duration, done func() (bool, error), otherwise string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s after %s: %w", otherwise, limit, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// markDeleted requests the deletion of an object.
func (l *live) markDeleted(ctx context.Context, o memory.Object) error {
	path := strings.Join(append(o.Kind.Path(o.Namespace), o.Name), "/")
	if h, err := headOf(o.JSON); err != nil || len(h.Metadata.Finalizers) == 0 {
		l.marked[path] = true
		l.server.MarkDeleted(o)
		return err
	}
	if err := l.delete(ctx, createdObject{path: path}); err != nil {
		return err
	}
	return l.mirror(ctx, path)
}

// remove removes an object, whatever finalizers it has, and waits until it is gone.
func (l *live) remove(ctx context.Context, o memory.Object) error {
	path := strings.Join(append(o.Kind.Path(o.Namespace), o.Name), "/")
	if err := l.deleteAll(ctx, []createdObject{{path: path}}); err != nil {
		return err
	}
	l.server.Remove(o)
	return nil
}

// readBack makes the mirror equal to the cluster.
func (l *live) readBack(ctx context.Context) error {
	paths := map[string]bool{}
	for _, o := range l.server.Objects() {
		paths[strings.Join(append(o.Kind.Path(o.Namespace), o.Name), "/")] = true
	}
	for path := range l.marked {
		delete(paths, path)
	}
	l.mu.Lock()
	maps.Copy(paths, l.changed)
	clear(l.changed)
	l.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := l.mirror(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// mirror reads an object.
func (l *live) mirror(ctx context.Context, path string) error {
	l.mu.Lock()
	delete(l.changed, path)
	l.mu.Unlock()
	res, namespace, name := pathParts(path)
	text, err := kube.Send(ctx, l.client.Get().AbsPath(path))
	if apierrors.IsNotFound(err) {
		if k, known := l.server.ResolveResource(res); known {
			if o, there := l.server.Get(memory.Object{Kind: k, Namespace: namespace, Name: name}); there {
				l.server.Remove(o)
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	h, err := headOf(text)
	if err != nil {
		return err
	}
	if collected(&h) {
		if err := l.gone(ctx, createdObject{path: path}); err != nil {
			return err
		}
		return l.mirror(ctx, path)
	}
	l.server.Learn(memory.Kind{Resource: kube.Resource{GroupVersionResource: res, Kind: h.Kind, Namespaced: namespace != ""}, Guessed: true})
	_, err = l.server.Mirror(text)
	return err
}

// collected reports whether only the garbage collector keeps a deleted object, for a moment.
func collected(h *head) bool {
	return h.Metadata.DeletionTimestamp != "" && !slices.ContainsFunc(h.Metadata.Finalizers, func(f string) bool {
		return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
	}) && len(h.Metadata.Finalizers) > 0
}

// clean deletes what was created, the latest first, and waits until it is gone. It also does so after a signal.
func (l *live) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	l.mu.Lock()
	created := slices.Clone(l.created)
	l.mu.Unlock()
	slices.Reverse(created)
	return l.deleteAll(ctx, created)
}

func (l *live) deleteAll(ctx context.Context, objects []createdObject) error {
	var errs []error
	for _, o := range objects {
		if err := l.release(ctx, o); err != nil {
			errs = append(errs, err)
		}
		if err := l.delete(ctx, o); err != nil {
			errs = append(errs, err)
		}
	}
	for _, o := range objects {
		if err := l.gone(ctx, o); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the cluster is not clean: %w", err)
	}
	return nil
}

// release removes the finalizers of an object.
func (l *live) release(ctx context.Context, o createdObject) error {
	text, err := kube.Send(ctx, l.client.Get().AbsPath(o.path))
	if apierrors.IsNotFound(err) {
		return nil
	}
	var object struct{ Metadata metav1.ObjectMeta }
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	if err == nil && len(object.Metadata.Finalizers) > 0 && (o.uid == "" || o.uid == object.Metadata.UID) {
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": nil, "uid": object.Metadata.UID}})
		_, err = kube.Send(ctx, l.client.Patch(types.MergePatchType).AbsPath(o.path).Body(patch))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot remove the finalizers of %s: %w", o.path, err)
	}
	return nil
}

func (l *live) delete(ctx context.Context, o createdObject) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, PropagationPolicy: &background}
	if o.uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &o.uid}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	_, err = kube.Send(ctx, l.client.Delete().AbsPath(o.path).SetHeader("Content-Type", "application/json").Body(body))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict is another object of that name
		return fmt.Errorf("cannot delete %s: %w", o.path, err)
	}
	return nil
}

// gone waits until an object is gone, or another one has its name.
func (l *live) gone(ctx context.Context, o createdObject) error {
	return l.poll(ctx, goneTimeout, func() (bool, error) {
		text, err := kube.Send(ctx, l.client.Get().AbsPath(o.path))
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		var object struct{ Metadata metav1.ObjectMeta }
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		return err == nil && o.uid != "" && object.Metadata.UID != o.uid, err
	}, o.path+" is still there")
}
