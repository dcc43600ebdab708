package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Resource is the resource of a kind.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// ShortNames are separated by commas: "po". They are empty if they are not known.
	ShortNames string
}

// Called reports whether text is the kind, its plural or one of its short names.
func (r *Resource) Called(text string) bool {
	return text != "" && slices.ContainsFunc(append(strings.Split(r.ShortNames, ","), r.Kind, r.Resource), func(name string) bool {
		return strings.EqualFold(name, text)
	})
}

// Path returns the path of the collection in a namespace; for no namespace, and for resources without namespaces, in
// the whole cluster.
func (r Resource) Path(namespace string) []string {
	path := []string{"/apis", r.Group, r.Version}
	if r.Group == "" {
		path = []string{"/api", r.Version}
	}
	if r.Namespaced && namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	return append(path, r.Resource)
}

// Path is the content of a request's path: a version, a collection of its objects, or one of them.
type Path struct {
	schema.GroupVersionResource
	Namespace, Name, Subresource string
}

// ParsePath returns the zero value for a path that names none of these.
func ParsePath(path string) (p Path) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 1 && parts[0] == "api":
		p.Version, parts = parts[1], parts[2:]
	case len(parts) > 2 && parts[0] == "apis":
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		p.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	p.Resource, p.Name, p.Subresource = parts[0], parts[1], parts[2]
	return p
}

// UnknownKindError reports that the API server does not serve a kind (yet).
type UnknownKindError struct {
	APIVersion, Kind string
	// Simulated: the API server knows built-in kinds, and CRDs among the objects of a simulation.
	Simulated bool
}

func (e *UnknownKindError) Error() string {
	where, why := "any group", "is its CRD missing?"
	if e.APIVersion != "" {
		where, why = fmt.Sprintf("%q", e.APIVersion), "is its CRD missing, or is it served in another version?"
	}
	if e.Simulated {
		return fmt.Sprintf("the simulated cluster knows no kind, plural or short name %q in %s: add its CRD to the objects", e.Kind, where)
	}
	return fmt.Sprintf("the API server knows no kind, plural or short name %q in %s: %s", e.Kind, where, why)
}

// IsUnserved reports whether the API server no longer serves the path of a request: the CRD is gone, or has another version or
// scope. It is true also for a missing subresource, and for no request that only lacks an object.
func IsUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Resolver finds the resource of a kind as users write it. It is safe for concurrent use.
//
// client-go has a discovery client, but it brings all types of the Kubernetes API into the process: more memory than a
// small operator needs for everything else.
type Resolver struct {
	client rest.Interface
	// Simulated is for the errors: there is no API server.
	Simulated bool

	mu     sync.Mutex
	groups []string                        // group versions, core first, of each group the preferred one first; nil if not read
	lists  map[string][]metav1.APIResource // by group version
}

// NewResolver returns a Resolver with an empty cache.
func NewResolver(client rest.Interface) *Resolver { return &Resolver{client: client} }

// Resolve returns the resource of a kind that supports all the verbs, such as "list" and "watch". It reads again what is cached before it
// returns an error: an *UnknownKindError, or one of the API server.
func (r *Resolver) Resolve(ctx context.Context, apiVersion, kind string, verbs ...string) (Resource, error) {
	res, err := r.Find(ctx, apiVersion, kind, verbs...)
	if err == nil {
		return res, nil
	}
	return r.ResolveAgain(ctx, apiVersion, kind, verbs...)
}

// ResolveGroup returns the resource of a kind of a group, in the version that the API server prefers. An
// *UnknownKindError means that the API server does not serve the kind; any other error that this is not known.
func (r *Resolver) ResolveGroup(ctx context.Context, kind schema.GroupKind) (Resource, error) {
	res, err := r.FindGroup(ctx, kind)
	if err == nil {
		return res, nil
	}
	r.Forget()
	return r.FindGroup(ctx, kind)
}

// FindGroup is ResolveGroup without a second attempt: it reads what is not cached.
func (r *Resolver) FindGroup(ctx context.Context, kind schema.GroupKind) (Resource, error) {
	versions, err := r.preferred(ctx)
	if err != nil {
		return Resource{}, err
	}
	for _, version := range versions {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil || gv.Group != kind.Group {
			continue
		}
		res, err := r.Find(ctx, version, kind.Kind)
		if !errors.As(err, new(*UnknownKindError)) {
			return res, err
		}
	}
	return Resource{}, &UnknownKindError{APIVersion: kind.Group, Kind: kind.Kind, Simulated: r.Simulated}
}

// ResolveAgain is Resolve without what is cached.
func (r *Resolver) ResolveAgain(ctx context.Context, apiVersion, kind string, verbs ...string) (Resource, error) {
	r.Forget()
	return r.Find(ctx, apiVersion, kind, verbs...)
}

// ResolveSubresource returns the resource with a subresource of this kind: pods for an Eviction.
func (r *Resolver) ResolveSubresource(ctx context.Context, apiVersion, kind, subresource string) (Resource, error) {
	versions, err := r.preferred(ctx)
	if err != nil {
		return Resource{}, err
	}
	for _, version := range versions {
		list, err := r.resources(ctx, version)
		if err != nil {
			continue
		}
		for _, res := range list {
			parent, isSub := strings.CutSuffix(res.Name, "/"+subresource)
			own := schema.GroupVersion{Group: res.Group, Version: res.Version}.String()
			if res.Version == "" {
				own = version
			}
			if isSub && strings.EqualFold(res.Kind, kind) && own == apiVersion {
				gv, err := schema.ParseGroupVersion(version)
				return Resource{GroupVersionResource: gv.WithResource(parent), Kind: res.Kind, Namespaced: res.Namespaced}, err
			}
		}
	}
	return Resource{}, fmt.Errorf("the API server knows no subresource %q that takes objects of kind %s in %s", subresource, kind, apiVersion)
}

// Forget drops what is cached.
func (r *Resolver) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups, r.lists = nil, nil
}

// Find is Resolve without a second attempt: it reads what is not cached.
func (r *Resolver) Find(ctx context.Context, apiVersion, kind string, verbs ...string) (Resource, error) {
	versions := []string{apiVersion}
	if apiVersion == "" {
		var err error
		if versions, err = r.preferred(ctx); err != nil {
			return Resource{}, err
		}
	}
	var broken error
	for _, version := range versions {
		list, err := r.resources(ctx, version)
		if err != nil {
			broken = err
			continue
		}
		for _, res := range list {
			if called(res, kind) && can(res, verbs) {
				gv, err := schema.ParseGroupVersion(version)
				return Resource{gv.WithResource(res.Name), res.Kind, res.Namespaced, strings.Join(res.ShortNames, ",")}, err
			}
		}
	}
	if broken != nil {
		return Resource{}, fmt.Errorf("cannot resolve kind %q: %w", kind, broken)
	}
	return Resource{}, &UnknownKindError{APIVersion: apiVersion, Kind: kind, Simulated: r.Simulated}
}

// called reports whether text names res. It never names a subresource.
func called(res metav1.APIResource, text string) bool {
	if strings.Contains(res.Name, "/") || len(res.Verbs) == 0 {
		return false
	}
	return strings.EqualFold(res.Kind, text) || strings.EqualFold(res.Name, text) || strings.EqualFold(res.SingularName, text) ||
		slices.ContainsFunc(res.ShortNames, func(short string) bool { return strings.EqualFold(short, text) })
}

func can(res metav1.APIResource, verbs []string) bool {
	for _, verb := range verbs {
		if !slices.Contains(res.Verbs, verb) {
			return false
		}
	}
	return true
}

func (r *Resolver) preferred(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	known := r.groups
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var list metav1.APIGroupList
	if err := r.get(ctx, "/apis", &list); err != nil {
		return nil, fmt.Errorf("cannot list the API groups: %w", err)
	}
	groups := []string{"v1"}
	for _, g := range list.Groups {
		preferred := g.PreferredVersion.GroupVersion
		groups = append(groups, preferred)
		for _, v := range g.Versions {
			// Custom resources of one group need not have a version in common.
			if v.GroupVersion != preferred {
				groups = append(groups, v.GroupVersion)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups = groups
	return groups, nil
}

func (r *Resolver) resources(ctx context.Context, groupVersion string) ([]metav1.APIResource, error) {
	r.mu.Lock()
	known, ok := r.lists[groupVersion]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	if strings.Contains(groupVersion, "..") { // operations of hooks name versions, too: it would be another path
		return nil, nil
	}
	path := "/apis/" + groupVersion
	if !strings.Contains(groupVersion, "/") {
		path = "/api/" + groupVersion
	}
	var list metav1.APIResourceList
	if err := r.get(ctx, path, &list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot list the resources of %s: %w", groupVersion, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lists == nil {
		r.lists = map[string][]metav1.APIResource{}
	}
	r.lists[groupVersion] = list.APIResources
	return list.APIResources, nil
}

func (r *Resolver) get(ctx context.Context, path string, into any) error {
	// The caller retries, and reports the error meanwhile.
	raw, err := Send(ctx, r.client.Get().AbsPath(path).MaxRetries(0))
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into, json.MatchCaseInsensitiveNames(true))
}
