package dev

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Tested is what the cases of test files show of the hooks.
type Tested struct {
	uses []rbac.Use
	// Hooks by name: covered have cases, a case of syncing returns sets, a run of calling has called kubectl.
	covered, syncing, calling map[string]bool
	// kinds are the resources, by API version and kind, of bindings for which a case has the CRD.
	kinds map[string]kube.Resource
	// untested are the hooks without a case.
	untested []string
	notes    []string
}

// ownNamespace is the operator's namespace in the cases: what is in it is about records of the operator.
const ownNamespace = "operator-of-the-cases"

// runTests runs the cases of test files, and returns what they show of the hooks. Cases of other hooks are left out.
func runTests(ctx context.Context, o Options, hooks []*hook.Hook, paths []string) (*Tested, error) {
	t := &Tested{covered: map[string]bool{}, syncing: map[string]bool{}, calling: map[string]bool{}, kinds: map[string]kube.Resource{}}
	byPath, others := map[string]*hook.Hook{}, map[string]bool{}
	for _, h := range hooks {
		byPath[realPath(h.Path)] = h
	}
	var mu sync.Mutex // guards t
	collect := func(path string, h *hook.Hook, r *simulate.Result) {
		mu.Lock()
		defer mu.Unlock()
		if operated := byPath[realPath(path)]; operated != nil {
			t.add(operated, h, r)
		} else {
			others[path] = true
		}
	}
	report, err := Test(ctx, o, TestOptions{Paths: paths, Namespace: ownNamespace, collect: collect})
	if err != nil {
		return nil, fmt.Errorf("cannot run the cases for --from-tests: %w", err)
	}
	if report.Failed > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d of %d cases fail, their operations may be incomplete: shell-operator test shows them",
			report.Failed, len(report.Cases)))
	}
	for path := range others {
		t.notes = append(t.notes, fmt.Sprintf("the cases of %s are left out: it is no hook of --hooks-dir", path))
	}
	for _, h := range hooks {
		if !t.covered[h.Name] {
			t.untested = append(t.untested, h.Name)
		}
	}
	slices.Sort(t.notes)
	// Cases run concurrently.
	slices.SortFunc(t.uses, func(a, b rbac.Use) int {
		return cmp.Or(cmp.Compare(a.Why, b.Why), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource),
			slices.Compare(a.Verbs, b.Verbs))
	})
	return t, nil
}

func realPath(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	return path
}

// add adds what a case shows of a hook. Tested is the hook as it is configured in the case.
func (t *Tested) add(h, tested *hook.Hook, r *simulate.Result) {
	t.covered[h.Name] = true
	for _, call := range r.Calls {
		if len(call) > 0 && call[0] == "kubectl" {
			t.calling[h.Name] = true
		}
	}
	for _, one := range r.Sent {
		if one.Operation == effect.Sync.String() {
			t.syncing[h.Name] = true
		}
		if one.Namespace == ownNamespace {
			continue // records of sets, which the plan has
		}
		t.uses = append(t.uses, usesOf(h, tested, r, one)...)
	}
	for _, p := range r.Escalations {
		uses := usesOf(h, tested, r, apply.Sent{Operation: "Roles and bindings", Namespace: p.Namespace, Group: p.Group, Resource: p.Resource,
			Verbs: []string{p.Verb}})
		for i := range uses {
			uses[i].Name, uses[i].Why = p.Name, strings.Replace(uses[i].Why, "operation ", "", 1)
		}
		t.uses = append(t.uses, uses...)
	}
	for _, k := range tested.Kubernetes {
		if found, guessed := r.Resolve(k.APIVersion, k.Kind); !guessed {
			t.kinds[k.APIVersion+"/"+k.Kind] = found
		}
	}
}

// usesOf are the permissions for an operation of a case, in the namespaces that it stands for.
func usesOf(h, tested *hook.Hook, r *simulate.Result, one apply.Sent) (uses []rbac.Use) {
	use := rbac.Use{Group: one.Group, Resource: one.Resource, Verbs: one.Verbs,
		Why: fmt.Sprintf("%s, operation %s of its test cases", h.Name, one.Operation)}
	resource, _, _ := strings.Cut(one.Resource, "/")
	use.Guessed = r.Guessed(one.Group, resource)
	if one.Namespace == "" {
		return []rbac.Use{use}
	}
	for _, namespace := range namespacesOf(h, tested, one.Namespace) {
		use.Namespace = namespace
		uses = append(uses, use)
	}
	if len(uses) == 0 {
		use.Why += ", in all namespaces, because no binding of the hook names those of the objects"
		uses = append(uses, use)
	}
	return uses
}

// namespacesOf are those that a namespace of a case stands for: all that the hook's bindings name. Otherwise it is an example, and
// stands for all namespaces: there is none.
func namespacesOf(h, tested *hook.Hook, namespace string) []string {
	// The case may run with other variables than the operator, and so its bindings may name other namespaces.
	if named := boundTo(h); len(named) > 0 && slices.Contains(boundTo(tested), namespace) {
		return named
	}
	return nil
}

// boundTo are the namespaces that the bindings of a hook name.
func boundTo(h *hook.Hook) (names []string) {
	for i := range h.Kubernetes {
		names = append(names, h.Kubernetes[i].Namespaces.Names...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// confirm resolves guessed resources by a cluster, if there is one.
func (t *Tested) confirm(ctx context.Context, f *kindFinder) {
	if t == nil || f.resolver == nil {
		return
	}
	for i := range t.uses {
		if u := &t.uses[i]; u.Guessed {
			resource, _, _ := strings.Cut(u.Resource, "/")
			found, err := f.resolver.Find(ctx, "", resource)
			u.Guessed = err != nil || found.Group != u.Group || found.Resource != resource
		}
	}
}

// kubectlCall is a line of a script that calls kubectl.
var kubectlCall = regexp.MustCompile(`(?m)^[^#\n]*\bkubectl\b`)

// kubectlHooks are the hooks whose scripts or runs call kubectl.
func (t *Tested) kubectlHooks(hooks []*hook.Hook) (names []string) {
	for _, h := range hooks {
		text, err := os.ReadFile(h.Path)
		if t.calling[h.Name] || err == nil && kubectlCall.Match(text) {
			names = append(names, h.Name)
		}
	}
	return names
}
