package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// origin is a real cluster that is read for a simulation: the objects of the bindings at its start, any other object before the first
// request for it, or for a list by labels.
type origin struct {
	offline
	cluster *Cluster

	mu   sync.Mutex
	seen map[string]bool
}

func newOrigin(c *Cluster, server *memory.Server) *origin {
	return &origin{offline: offline{server, transport{server}}, cluster: c, seen: map[string]bool{}}
}

// load reads the objects of the bindings.
func (o *origin) load(ctx context.Context, h *hook.Hook) error {
	for i := range h.Kubernetes {
		b := &h.Kubernetes[i]
		res, err := o.cluster.ResourceOf(ctx, b)
		if b.Optional && errors.As(err, new(*kube.UnknownKindError)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("binding %q: %w", b.Name, err)
		}
		o.Learn(memory.Kind{Resource: res, Guessed: true})
		objects, err := o.cluster.objects(ctx, res, b)
		if err != nil {
			return fmt.Errorf("binding %q: cannot read the objects: %w", b.Name, err)
		}
		if b.Namespaces.ByLabels {
			found, err := o.cluster.list(ctx, Namespaces, "", b.Namespaces.Labels, "")
			if err != nil {
				return fmt.Errorf("binding %q: cannot read the namespaces: %w", b.Name, err)
			}
			objects = append(found, objects...)
		}
		for _, text := range objects {
			if _, err := o.Mirror(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn implements store: the cluster knows which kinds there are.
func (o *origin) learn(ctx context.Context, apiVersion, kind string, _ bool) error {
	if _, known := o.Resolve(apiVersion, kind); known {
		return nil
	}
	res, err := o.cluster.Resolver.Resolve(ctx, apiVersion, kind)
	if err == nil {
		o.Learn(memory.Kind{Resource: res, Guessed: true})
	}
	return err
}

// find implements store: an object that is not in memory is read.
func (o *origin) find(ctx context.Context, ref string) (memory.Object, error) {
	found, err := findIn(o.Server, ref)
	parts := strings.Split(ref, "/")
	if err == nil || len(parts) < 2 || len(parts) > 3 {
		return found, err // the error explains references
	}
	res, err := o.cluster.Resolver.Resolve(ctx, "", parts[0])
	if err != nil {
		return memory.Object{}, err
	}
	namespace := ""
	switch {
	case len(parts) == 3:
		namespace = parts[1]
	case res.Namespaced:
		namespace = "default"
	}
	text, err := o.cluster.Get(ctx, res, namespace, parts[len(parts)-1])
	if err != nil {
		return memory.Object{}, fmt.Errorf("cannot read %s: %w", ref, err)
	}
	o.Learn(memory.Kind{Resource: res, Guessed: true})
	found, err = o.Mirror(text)
	o.Changes()
	return found, err
}

// remove implements store: the object is not read again.
func (o *origin) remove(gone memory.Object) {
	o.mu.Lock()
	o.seen[strings.Join(append(gone.Kind.Path(gone.Namespace), gone.Name), "/")] = true
	o.mu.Unlock()
	o.Remove(gone)
}

// RoundTrip passes a request to the simulated cluster. Its object is read before, and so are those of a list by labels: the members of a
// set.
func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	read := o.read
	if r.Method == http.MethodGet && r.URL.Query().Get("labelSelector") != "" {
		read = o.readList
	}
	if err := read(r); err != nil {
		return nil, err
	}
	return o.offline.RoundTrip(r)
}

// unread returns the kind of an object that the simulation does not know yet. From then on it does.
func (o *origin) unread(path string) (k memory.Kind, unread bool) {
	p := kube.ParsePath(path)
	o.mu.Lock()
	seen := o.seen[path]
	o.seen[path] = true
	o.mu.Unlock()
	if k, unread = o.ResolveResource(p.GroupResource()); seen || !unread {
		return k, false
	}
	_, there := o.Get(memory.Object{Kind: k, Namespace: p.Namespace, Name: p.Name})
	return k, !there
}

// readList reads the objects of a list that the simulation does not know.
func (o *origin) readList(r *http.Request) error {
	p := kube.ParsePath(r.URL.Path)
	k, known := o.ResolveResource(p.GroupResource())
	if !known {
		return nil
	}
	all, err := o.cluster.list(r.Context(), k.Resource, p.Namespace, r.URL.Query().Get("labelSelector"), "")
	if err != nil {
		return err
	}
	for _, text := range all {
		h, err := testfile.HeadOf(text)
		if err != nil {
			return err
		}
		if _, unread := o.unread(strings.Join(append(k.Path(h.Metadata.Namespace), h.Metadata.Name), "/")); !unread {
			continue
		}
		if _, err := o.Mirror(text); err != nil {
			return err
		}
	}
	return nil
}

func (o *origin) read(r *http.Request) error {
	path, err := objectPath(r)
	if err != nil {
		return err
	}
	p := kube.ParsePath(path)
	if p.Name == "" {
		return nil
	}
	k, unread := o.unread(path)
	if !unread {
		return nil
	}
	text, err := o.cluster.Get(r.Context(), k.Resource, p.Namespace, p.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	_, err = o.Mirror(text)
	return err
}
