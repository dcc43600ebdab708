package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// resource is what a kind resolved to.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// unknownKindError says that the API server serves no such kind (yet).
type unknownKindError struct{ apiVersion, kind string }

func (e *unknownKindError) Error() string {
	if e.apiVersion == "" {
		return fmt.Sprintf("the API server knows no kind, plural or short name %q in any group: is its CRD missing?", e.kind)
	}
	return fmt.Sprintf("the API server knows no kind, plural or short name %q in %q: is its CRD missing, or is it served in another version?", e.kind, e.apiVersion)
}

// resolver finds resources by what users call them. It remembers what the server said until it is
// asked for something that is not there.
//
// client-go has a discovery client, but it brings all types of the Kubernetes API into the process,
// which is more memory than a small operator needs for everything else.
type resolver struct {
	client rest.Interface

	mu     sync.Mutex
	groups []string                        // group versions, core first, of each group the preferred one first; nil when not known
	lists  map[string][]metav1.APIResource // by group version
}

// resolve finds the resource of a kind, plural or short name in any case.
func (r *resolver) resolve(ctx context.Context, apiVersion, kind string) (resource, error) {
	res, err := r.search(ctx, apiVersion, kind)
	if err == nil {
		return res, nil
	}
	r.forget()
	var unknown *unknownKindError
	if !errors.As(err, &unknown) {
		return resource{}, err // what does not answer now will not answer at once
	}
	return r.search(ctx, apiVersion, kind)
}

func (r *resolver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups, r.lists = nil, nil
}

func (r *resolver) search(ctx context.Context, apiVersion, kind string) (resource, error) {
	versions := []string{apiVersion}
	if apiVersion == "" {
		var err error
		if versions, err = r.preferred(ctx); err != nil {
			return resource{}, err
		}
	}
	var broken error
	for _, version := range versions {
		list, err := r.resources(ctx, version)
		if err != nil {
			broken = err // an aggregated API that is down must not hide the others
			continue
		}
		for _, res := range list {
			if called(res, kind) {
				gv, err := schema.ParseGroupVersion(version)
				return resource{gv.WithResource(res.Name), res.Kind, res.Namespaced}, err
			}
		}
	}
	if broken != nil {
		return resource{}, fmt.Errorf("cannot find out about kind %q: %w", kind, broken)
	}
	return resource{}, &unknownKindError{apiVersion, kind}
}

// called tells whether a user may mean res by text. Sub-resources, and what cannot be watched, never are.
func called(res metav1.APIResource, text string) bool {
	if strings.Contains(res.Name, "/") || !slices.Contains(res.Verbs, "list") || !slices.Contains(res.Verbs, "watch") {
		return false
	}
	return strings.EqualFold(res.Kind, text) || strings.EqualFold(res.Name, text) || strings.EqualFold(res.SingularName, text) ||
		slices.ContainsFunc(res.ShortNames, func(short string) bool { return strings.EqualFold(short, text) })
}

func (r *resolver) preferred(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	known := r.groups
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var list metav1.APIGroupList
	if err := getJSON(ctx, r.client, "/apis", &list); err != nil {
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

func (r *resolver) resources(ctx context.Context, groupVersion string) ([]metav1.APIResource, error) {
	r.mu.Lock()
	known, ok := r.lists[groupVersion]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	path := "/apis/" + groupVersion
	if !strings.Contains(groupVersion, "/") {
		path = "/api/" + groupVersion
	}
	var list metav1.APIResourceList
	if err := getJSON(ctx, r.client, path, &list); err != nil && !isNotFound(err) {
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

func getJSON(ctx context.Context, client rest.Interface, path string, into any) error {
	// Whoever asks tries again, and wants to say why meanwhile.
	raw, err := client.Get().AbsPath(path).MaxRetries(0).Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into, json.MatchCaseInsensitiveNames(true))
}
