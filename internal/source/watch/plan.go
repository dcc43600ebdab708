package watch

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// How many narrow watches a binding may open before wider ones are considered, and how many objects a single one
// may bring along for each watch that it saves. An open watch costs the operator and
// the API server some 60 KiB and three goroutines each, and a request at every start and every relist;
// an object that is looked at and thrown away costs 20 µs once per list and per change.
const (
	fewWatches      = 3
	objectsPerWatch = 250
)

// plan is what a binding subscribes to. If the scopes are wider than the binding, only and onlyIn are its names and namespaces.
type plan struct {
	scopes       []stream.Scope
	only, onlyIn map[string]bool
	// byLabels: the scope has the namespaces to follow; in each of them there are scopes like base.
	byLabels bool
	base     stream.Scope
}

// narrowPlan has requests for just what the binding selects.
func (w *Watcher) narrowPlan(m *monitor, res kube.Resource) plan {
	b, part := m.binding, divide(w.ownShard(), m.hook, res).stream
	base := stream.Scope{
		GroupVersionResource: res.GroupVersionResource, Labels: b.Labels, Fields: b.Fields,
		KeepManagedFields: m.keepManagedFields,
		Part:              part, Resync: b.Resync,
	}
	if !res.Namespaced {
		return plan{base: base, scopes: narrow(base, nil, b.Names)}
	}
	if b.Namespaces.ByLabels {
		namespaces := stream.Scope{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Labels: b.Namespaces.Labels,
			KeepManagedFields: true,
		}
		if part.By() == shard.ByNamespace {
			namespaces.Part = stream.Part{Part: part.Part, Named: true}
		}
		return plan{base: base, byLabels: true, scopes: []stream.Scope{namespaces}}
	}
	own := part.OwnNamespaces(b.Namespaces.Names)
	if len(own) == 0 && len(b.Namespaces.Names) > 0 {
		return plan{base: base}
	}
	return plan{base: base, scopes: narrow(base, own, b.Names)}
}

// plan chooses the lists and watches of a binding, the cheapest that are allowed: one for each pair of namespace and name;
// one for each name, in all namespaces; or a single one for all of them. What is wider than the binding is narrowed on our
// side. Secrets are never requested more widely than the binding does. An error means that the choice has to be made again.
func (w *Watcher) plan(ctx context.Context, m *monitor, res kube.Resource) (plan, error) {
	w.opts.Listing(m.hook, m.index, res.GroupResource().String())
	p := w.narrowPlan(m, res)
	if p.byLabels || len(p.scopes) <= fewWatches || p.base.Group == "" && p.base.Resource == "secrets" {
		return p, nil
	}
	names, namespaces := m.binding.Names, p.base.Part.OwnNamespaces(m.binding.Namespaces.Names)
	if !res.Namespaced {
		namespaces = nil
	}
	wide := p.base
	if len(namespaces) == 1 {
		wide = wide.In(namespaces[0])
	}
	if ok, err := w.mayWatch(ctx, wide); !ok || err != nil {
		return p, err
	}
	chosen := p.scopes
	if len(namespaces) > 1 && len(names) > 0 {
		chosen = narrow(p.base, nil, names)
	}
	if limit := len(chosen) * objectsPerWatch; len(chosen) > 1 {
		n, err := w.count(ctx, wide, limit)
		if err != nil {
			return p, err
		}
		if n <= limit {
			chosen = []stream.Scope{wide}
		}
	}
	if len(chosen) == len(p.scopes) {
		return p, nil
	}
	m.log.Debug("Wider watches serve the binding", "count", len(chosen), "scope", chosen[0].String(), "instead", len(p.scopes))
	return plan{scopes: chosen, only: set(names), onlyIn: set(namespaces)}, nil
}

// narrow returns one scope for each pair of namespace and name. No namespaces, or no names, means all.
func narrow(base stream.Scope, namespaces, names []string) []stream.Scope {
	var scopes []stream.Scope
	for _, namespace := range orAll(namespaces) {
		for _, name := range orAll(names) {
			sc := base.In(namespace)
			if name != "" {
				if sc.Fields != "" {
					sc.Fields += ","
				}
				sc.Fields += "metadata.name=" + fields.EscapeValue(name)
			}
			scopes = append(scopes, sc)
		}
	}
	return scopes
}

func orAll(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

func set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	s := make(map[string]bool, len(names))
	for _, name := range names {
		s[name] = true
	}
	return s
}

// mayWatch reports whether the operator is allowed to list and watch a scope.
func (w *Watcher) mayWatch(ctx context.Context, sc stream.Scope) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		ok, err := allowed(ctx, w.client, authorization.ResourceAttributes{
			Namespace: sc.Namespace, Verb: verb, Group: sc.Group, Version: sc.Version, Resource: sc.Resource,
		})
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func allowed(ctx context.Context, client rest.Interface, what authorization.ResourceAttributes) (bool, error) {
	review := authorization.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}
	raw, err := kube.SendJSON(ctx, client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), review)
	switch {
	case stream.Refused(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot review the permission to %s %s: %w", what.Verb, what.Resource, err)
	}
	err = json.Unmarshal(raw, &review, json.MatchCaseInsensitiveNames(true))
	return review.Status.Allowed, err
}

// count returns the number of objects in a scope without its selectors, or more than limit if it cannot be known.
func (w *Watcher) count(ctx context.Context, sc stream.Scope, limit int) (int, error) {
	all := stream.Scope{GroupVersionResource: sc.GroupVersionResource, Namespace: sc.Namespace}
	raw, err := kube.Send(ctx, w.client.Get().AbsPath(all.Path()).
		SpecificallyVersionedParams(&metav1.ListOptions{Limit: 1}, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}))
	switch {
	case stream.Refused(err):
		return limit + 1, nil
	case err != nil:
		return 0, fmt.Errorf("cannot count %s: %w", sc, err)
	}
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []struct{}      `json:"items"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		return 0, fmt.Errorf("cannot count %s: %w", sc, err)
	}
	switch {
	case page.Metadata.Continue == "":
		return len(page.Items), nil
	case page.Metadata.RemainingItemCount == nil:
		return limit + 1, nil
	}
	return len(page.Items) + int(*page.Metadata.RemainingItemCount), nil
}
