package workbench

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/workbench/memory"
)

// origin is a real cluster that is read for a simulation: the objects of the bindings at its start, any other object before the first
// request for it, or for a list by labels.
type origin struct {
	*cluster
	server *memory.Server

	mu   sync.Mutex
	seen map[string]bool
}

func newOrigin(c *cluster, server *memory.Server) *origin {
	return &origin{cluster: c, server: server, seen: map[string]bool{}}
}

// load reads the objects of the bindings.
func (o *origin) load(ctx context.Context, h *hook.Hook) error {
	for i := range h.Kubernetes {
		b := &h.Kubernetes[i]
		res, err := o.resolve(ctx, b)
		if err != nil {
			return fmt.Errorf("binding %q: %w", b.Name, err)
		}
		o.server.Learn(memory.Kind{Resource: res, Guessed: true})
		objects, err := o.objects(ctx, res, b, 0)
		if err != nil {
			return fmt.Errorf("binding %q: cannot read the objects: %w", b.Name, err)
		}
		if b.Namespaces.ByLabels {
			found, err := o.list(ctx, namespaceResource, "", b.Namespaces.Labels, "", 0)
			if err != nil {
				return fmt.Errorf("binding %q: cannot read the namespaces: %w", b.Name, err)
			}
			objects = append(found, objects...)
		}
		for _, text := range objects {
			if _, err := o.server.Mirror(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn serves the kinds of operations.
func (o *origin) learn(ctx context.Context, patches []effect.Patch) {
	learn := func(apiVersion, kind string) {
		if _, known := o.server.Resolve(apiVersion, kind); known {
			return
		}
		if res, err := o.resolver.Resolve(ctx, apiVersion, kind); err == nil { // otherwise the operation fails
			o.server.Learn(memory.Kind{Resource: res, Guessed: true})
		}
	}
	for _, p := range patches {
		if p.Set == nil {
			learn(p.APIVersion, p.Kind)
			continue
		}
		for _, m := range p.Set.Objects {
			learn(m.APIVersion, m.Kind)
		}
		if p.Set.Owner != nil {
			learn(p.Set.Owner.APIVersion, p.Set.Owner.Kind)
		}
	}
}

// find reads the object of a reference.
func (o *origin) find(ctx context.Context, ref string) (memory.Object, error) {
	parts := strings.Split(ref, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return o.server.Find(ref) // its error explains references
	}
	res, err := o.resolver.Resolve(ctx, "", parts[0])
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
	text, err := o.get(ctx, res, namespace, parts[len(parts)-1])
	if err != nil {
		return memory.Object{}, fmt.Errorf("cannot read %s: %w", ref, err)
	}
	o.server.Learn(memory.Kind{Resource: res, Guessed: true})
	return o.server.Mirror(text)
}

// forget makes an object unknown to the simulation, which has removed it.
func (o *origin) forget(gone memory.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[strings.Join(append(gone.Kind.Path(gone.Namespace), gone.Name), "/")] = true
}

// RoundTrip passes a request to the simulated cluster. Its object is read before, and so are those of a list by labels: the members of a set.
func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	read := o.read
	if r.Method == http.MethodGet && r.URL.Query().Get("labelSelector") != "" {
		read = o.readList
	}
	if err := read(r); err != nil {
		return nil, err
	}
	return o.server.RoundTrip(r)
}

// unread returns the kind of an object that the simulation does not know yet. From then on it does.
func (o *origin) unread(path string) (k memory.Kind, unread bool) {
	res, namespace, name := pathParts(path)
	o.mu.Lock()
	seen := o.seen[path]
	o.seen[path] = true
	o.mu.Unlock()
	if k, unread = o.server.ResolveResource(res); seen || !unread {
		return k, false
	}
	_, there := o.server.Get(memory.Object{Kind: k, Namespace: namespace, Name: name})
	return k, !there
}

// readList reads the objects of a list that the simulation does not know.
func (o *origin) readList(r *http.Request) error {
	res, namespace, _ := pathParts(r.URL.Path + "/any")
	k, known := o.server.ResolveResource(res)
	if !known {
		return nil
	}
	all, err := o.list(r.Context(), k.Resource, namespace, r.URL.Query().Get("labelSelector"), "", 0)
	if err != nil {
		return err
	}
	for _, text := range all {
		h, err := headOf(text)
		if err != nil {
			return err
		}
		if _, unread := o.unread(strings.Join(append(k.Path(h.Metadata.Namespace), h.Metadata.Name), "/")); !unread {
			continue
		}
		if _, err := o.server.Mirror(text); err != nil {
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
	_, namespace, name := pathParts(path)
	if name == "" {
		return nil
	}
	k, unread := o.unread(path)
	if !unread {
		return nil
	}
	text, err := o.get(r.Context(), k.Resource, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	_, err = o.server.Mirror(text)
	return err
}

// pathParts splits the path of an object, without its subresource. The name is empty for other paths.
func pathParts(path string) (res schema.GroupVersionResource, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 3 && parts[0] == "api":
		res.Version, parts = parts[1], parts[2:]
	case len(parts) > 4 && parts[0] == "apis":
		res.Group, res.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return res, "", ""
	}
	switch {
	case parts[0] != "namespaces" || len(parts) < 3:
	case len(parts) > 3:
		namespace, parts = parts[1], parts[2:]
	case parts[2] != "status" && parts[2] != "finalize": // a collection
		return res, "", ""
	}
	res.Resource = parts[0]
	return res, namespace, parts[1]
}
