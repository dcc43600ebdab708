package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// maxFiltered is how many objects of a binding a filter is tried on.
const maxFiltered = 100

// clusterLinter checks the bindings of hooks against a cluster, with reads only.
type clusterLinter struct {
	*linter
	access
	filters *jq.Compiler
	// kinds are those that the cluster serves, by apiVersion and kind of bindings.
	kinds map[[2]string]rbac.Kind
	plan  rbac.Options
}

// inCluster checks all hooks, and returns manifests with the permissions that are missing.
func (l *linter) inCluster(ctx context.Context, all []linted, dir string) (found []lint.Finding, roles string, err error) {
	connection, err := kube.Connect(l.opts.Cluster, dir)
	if err != nil {
		return nil, "", err
	}
	cl, err := simulate.NewCluster(connection)
	if err != nil {
		return nil, "", err
	}
	c := &clusterLinter{
		linter: l, access: access{cl, l.lint.As, map[permission]bool{}}, filters: jq.NewCompiler(jq.Options{LibraryPath: l.opts.JQLibraryPath}),
		kinds: map[[2]string]rbac.Kind{}, plan: l.lint.RBAC.plan(nil),
	}
	var hooks []*hook.Hook
	for _, one := range all {
		if one.answer.Hook == nil {
			continue
		}
		problems, served, err := c.hook(ctx, one)
		found = append(found, problems...)
		if err != nil {
			return found, "", err
		}
		hooks = append(hooks, served)
	}
	missing, err := c.missing(ctx, hooks)
	if err != nil || len(missing) == 0 {
		return found, "", err
	}
	return found, rbac.YAML("Permissions that are missing, found by shell-operator lint --cluster.", missing, l.lint.RBAC.names()), nil
}

// hook checks the bindings of a hook. It returns the hook without those whose kind is not served.
func (c *clusterLinter) hook(ctx context.Context, one linted) (found []lint.Finding, served *hook.Hook, err error) {
	h := *one.answer.Hook
	h.Kubernetes = nil
	add := func(index int, key string, level lint.Level, text, hint string) {
		path := fmt.Sprintf("kubernetes[%d]", index)
		line, column := c.place(one.source, one.answer, path+key, "")
		if line == 0 {
			text = path + key + ": " + text
		}
		found = append(found, lint.Finding{Path: one.source.Path, Line: line, Column: column, Level: level, Hint: hint,
			Message: fmt.Sprintf("binding %q: %s", one.answer.Hook.Kubernetes[index].Name, text)})
	}
	for i := range one.answer.Hook.Kubernetes {
		b := &one.answer.Hook.Kubernetes[i]
		res, err := c.ResourceOf(ctx, b)
		var unknown *kube.UnknownKindError
		switch {
		case errors.As(err, &unknown):
			add(i, ".kind", lint.Error, err.Error(), "")
			continue
		case err != nil:
			return found, nil, fmt.Errorf("cannot check hook %q: %w", h.Name, err)
		}
		c.kinds[[2]string{b.APIVersion, b.Kind}] = rbac.Kind{Group: res.Group, Resource: res.Resource, Namespaced: res.Namespaced}
		h.Kubernetes = append(h.Kubernetes, *b)
		if err := c.namespacesOf(ctx, b, res, i, add); err != nil {
			return found, nil, err
		}
		if b.Condition != "" {
			has, err := c.Resolver.HasSubresource(ctx, res, "status")
			if err != nil {
				return found, nil, fmt.Errorf("cannot check hook %q: %w", h.Name, err)
			}
			if !has {
				add(i, ".conditions", lint.Error, res.Kind+" has no subresource status", "add \"subresources: {status: {}}\" to the version in its CRD")
			}
		}
		if err := c.filter(ctx, b, res, i, add); err != nil {
			return found, nil, err
		}
	}
	roles, err := c.missing(ctx, []*hook.Hook{&h})
	for _, r := range roles {
		for _, rule := range r.Rules {
			found = append(found, lint.Finding{Path: one.source.Path, Level: lint.Error, Message: missingText(r.Namespace, rule),
				Hint: kube.Grant(r.Namespace, kube.Rule{Group: rule.Group, Resource: rule.Resource, Names: rule.Names, Verbs: rule.Verbs})})
		}
	}
	return found, &h, err
}

func missingText(namespace string, rule rbac.Rule) string {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	return fmt.Sprintf("no permission to %s %s%s: %s", strings.Join(rule.Verbs, ", "), rule.Resource, where, strings.Join(rule.Why, "; "))
}

// adder adds a finding about a key of a binding.
type adder func(index int, key string, level lint.Level, text, hint string)

// namespacesOf checks that the namespaces of a binding exist.
func (c *clusterLinter) namespacesOf(ctx context.Context, b *hook.Kubernetes, res kube.Resource, index int, add adder) error {
	if !res.Namespaced {
		return nil
	}
	for _, name := range b.Namespaces.Names {
		_, err := c.Get(ctx, simulate.Namespaces, "", name)
		const key = ".namespace.nameSelector.matchNames"
		switch {
		case apierrors.IsNotFound(err):
			add(index, key, lint.Warning, fmt.Sprintf("namespace %q does not exist", name), "create it, or correct the name")
		case apierrors.IsForbidden(err):
			add(index, key, lint.Note, fmt.Sprintf("no permission to check whether namespace %q exists", name), "")
		case err != nil:
			return fmt.Errorf("cannot read namespace %q: %w", name, err)
		}
	}
	return nil
}

// filter tries the filter of a binding on its objects. Results are dropped, and errors have no values of objects.
func (c *clusterLinter) filter(ctx context.Context, b *hook.Kubernetes, res kube.Resource, index int, add adder) error {
	if b.JQFilter == "" {
		return nil
	}
	objects, err := c.Objects(ctx, res, b, maxFiltered)
	switch {
	case apierrors.IsForbidden(err):
		add(index, ".jqFilter", lint.Note, "no permission to try the filter on the objects", "")
		return nil
	case err != nil:
		return fmt.Errorf("cannot list the objects of binding %q: %w", b.Name, err)
	}
	program, err := c.filters.Compile(b.JQFilter)
	if err != nil {
		return err
	}
	failed, first := 0, error(nil)
	for _, text := range objects {
		tree, err := jq.Decode(text)
		if err == nil {
			_, err = program.Apply(ctx, tree)
		}
		if err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed > 0 {
		add(index, ".jqFilter", lint.Warning, fmt.Sprintf("the filter fails for %d of %d objects: %v", failed, len(objects), first),
			"use ? or // where a field may be absent")
	}
	return ctx.Err()
}

// missing returns the rules for hooks that are not granted. Each has all verbs that rbac prints for it.
func (c *clusterLinter) missing(ctx context.Context, hooks []*hook.Hook) (roles []rbac.Role, err error) {
	plan, err := rbac.Plan(hooks, func(apiVersion, kind string) (rbac.Kind, error) { return c.kinds[[2]string{apiVersion, kind}], nil },
		c.plan)
	if err != nil {
		return nil, err
	}
	for _, r := range plan {
		missing := rbac.Role{Namespace: r.Namespace}
		for _, rule := range r.Rules {
			granted, err := c.granted(ctx, r.Namespace, rule)
			if err != nil {
				return nil, err
			}
			if !granted {
				missing.Rules = append(missing.Rules, rule)
			}
		}
		if len(missing.Rules) > 0 {
			roles = append(roles, missing)
		}
	}
	return roles, nil
}

// granted reports whether all of a rule is granted that the operator needs: of the rule for watched objects, get is for the hooks.
func (c *clusterLinter) granted(ctx context.Context, namespace string, rule rbac.Rule) (bool, error) {
	names := rule.Names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		if verb == "get" && slices.Contains(rule.Verbs, "list") {
			continue
		}
		for _, name := range names {
			if ok, err := c.allowed(ctx, permission{verb, rule.Group, rule.Resource, namespace, name}); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
