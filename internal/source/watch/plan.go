package watch

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
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
	scopes       []scope
	only, onlyIn map[string]bool
}

// plan chooses the lists and watches of a binding, the cheapest that are allowed: one for each pair of namespace and name;
// one for each name, in all namespaces; or a single one for all of them. What is wider than the binding is narrowed on our
// side. Secrets are never asked for more widely than the binding does.
func (w *Watcher) plan(ctx context.Context, m *monitor, base scope, namespaces, names []string) plan {
	scopes := narrow(base, namespaces, names)
	if len(scopes) <= fewWatches || base.Group == "" && base.Resource == "secrets" {
		return plan{scopes: scopes}
	}
	wide := base
	if len(namespaces) == 1 {
		wide.namespace = namespaces[0]
	}
	if !w.mayWatch(ctx, wide) {
		return plan{scopes: scopes}
	}
	chosen := scopes
	if len(namespaces) > 1 && len(names) > 0 {
		chosen = narrow(base, nil, names)
	}
	if limit := len(chosen) * objectsPerWatch; len(chosen) > 1 && w.count(ctx, wide, limit) <= limit {
		chosen = []scope{wide}
	}
	if len(chosen) == len(scopes) {
		return plan{scopes: scopes}
	}
	m.log.Debug("Wider watches serve the binding", "count", len(chosen), "scope", chosen[0].String(), "instead", len(scopes))
	return plan{chosen, set(names), set(namespaces)}
}

// narrow returns one scope for each pair of namespace and name. No namespaces, or no names, means all.
func narrow(base scope, namespaces, names []string) []scope {
	var scopes []scope
	for _, namespace := range orAll(namespaces) {
		for _, name := range orAll(names) {
			sc := base
			sc.namespace = namespace
			if name != "" {
				if sc.fields != "" {
					sc.fields += ","
				}
				sc.fields += "metadata.name=" + fields.EscapeValue(name)
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

// mayWatch asks the API server whether we may list and watch a scope. When in doubt we may not.
func (w *Watcher) mayWatch(ctx context.Context, sc scope) bool {
	return !slices.ContainsFunc([]string{"list", "watch"}, func(verb string) bool {
		return !allowed(ctx, w.client, authorization.ResourceAttributes{
			Namespace: sc.namespace, Verb: verb, Group: sc.Group, Version: sc.Version, Resource: sc.Resource,
		})
	})
}

func allowed(ctx context.Context, client rest.Interface, what authorization.ResourceAttributes) bool {
	review := authorization.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false
	}
	raw, err := kube.Send(ctx, client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	return err == nil && json.Unmarshal(raw, &review, json.MatchCaseInsensitiveNames(true)) == nil && review.Status.Allowed
}

// count returns the number of objects in a scope without its selectors, or more than limit if it cannot tell.
func (w *Watcher) count(ctx context.Context, sc scope, limit int) int {
	raw, err := kube.Send(ctx, w.client.Get().AbsPath(scope{GroupVersionResource: sc.GroupVersionResource, namespace: sc.namespace}.path()).
		SpecificallyVersionedParams(&metav1.ListOptions{Limit: 1}, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}))
	var page struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []struct{}      `json:"items"`
	}
	if err != nil || json.Unmarshal(raw, &page) != nil {
		return limit + 1
	}
	switch {
	case page.Metadata.Continue == "":
		return len(page.Items)
	case page.Metadata.RemainingItemCount == nil:
		return limit + 1
	}
	return len(page.Items) + int(*page.Metadata.RemainingItemCount)
}
