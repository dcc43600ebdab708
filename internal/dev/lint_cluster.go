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
		linter: l, access: access{cl, l.lint.As, map[rbac.Permission]bool{}},
		filters: jq.NewCompiler(jq.Options{LibraryPath: l.opts.JQLibraryPath}), kinds: map[[2]string]rbac.Kind{}, plan: l.lint.RBAC.plan(nil),
	}
	var hooks []*hook.Hook
	for _, one := range all {
		if one.answer.Hook == nil {
			continue
		}
		one.findings = nil // they are reported
		served, err := c.hook(ctx, &one)
		found = append(found, one.findings...)
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
func (c *clusterLinter) hook(ctx context.Context, r *linted) (served *hook.Hook, err error) {
	h := *r.answer.Hook
	h.Kubernetes = nil
	for i := range r.answer.Hook.Kubernetes {
		b := &r.answer.Hook.Kubernetes[i]
		add := func(key string, level lint.Level, text, hint string) {
			path := fmt.Sprintf("kubernetes[%d]%s", i, key)
			line, column := r.place(path, "")
			if line == 0 {
				text = path + ": " + text
			}
			r.addAt(line, column, level, fmt.Sprintf("binding %q: %s", b.Name, text), hint)
		}
		res, err := c.ResourceOf(ctx, b)
		if errors.As(err, new(*kube.UnknownKindError)) {
			add(".kind", lint.Error, err.Error(), "")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot check hook %q: %w", h.Name, err)
		}
		c.kinds[[2]string{b.APIVersion, b.Kind}] = rbac.Kind{Group: res.Group, Resource: res.Resource, Namespaced: res.Namespaced}
		h.Kubernetes = append(h.Kubernetes, *b)
		if err := c.namespacesOf(ctx, b, res, add); err != nil {
			return nil, err
		}
		if b.Condition != "" {
			has, err := c.Resolver.HasSubresource(ctx, res, "status")
			if err != nil {
				return nil, fmt.Errorf("cannot check hook %q: %w", h.Name, err)
			}
			if !has {
				add(".conditions", lint.Error, res.Kind+" has no subresource status", "add \"subresources: {status: {}}\" to the version in its CRD")
			}
		}
		if err := c.filter(ctx, b, res, add); err != nil {
			return nil, err
		}
	}
	roles, err := c.missing(ctx, []*hook.Hook{&h})
	for _, role := range roles {
		for _, rule := range role.Rules {
			r.add(lint.Error, missingText(role.Namespace, rule),
				kube.Grant(role.Namespace, kube.Rule{Group: rule.Group, Resource: rule.Resource, Names: rule.Names, Verbs: rule.Verbs}))
		}
	}
	return &h, err
}

func missingText(namespace string, rule rbac.Rule) string {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	return fmt.Sprintf("no permission to %s %s%s: %s", strings.Join(rule.Verbs, ", "), rule.Resource, where, strings.Join(rule.Why, "; "))
}

// adder adds a finding about a key of a binding.
type adder func(key string, level lint.Level, text, hint string)

// namespacesOf checks that the namespaces of a binding exist.
func (c *clusterLinter) namespacesOf(ctx context.Context, b *hook.Kubernetes, res kube.Resource, add adder) error {
	if !res.Namespaced {
		return nil
	}
	for _, name := range b.Namespaces.Names {
		_, err := c.Get(ctx, simulate.Namespaces, "", name)
		const key = ".namespace.nameSelector.matchNames"
		switch {
		case apierrors.IsNotFound(err):
			add(key, lint.Warning, fmt.Sprintf("namespace %q does not exist", name), "create it, or correct the name")
		case apierrors.IsForbidden(err):
			add(key, lint.Note, fmt.Sprintf("no permission to check whether namespace %q exists", name), "")
		case err != nil:
			return fmt.Errorf("cannot read namespace %q: %w", name, err)
		}
	}
	return nil
}

// filter tries the filter of a binding on its objects. Results are dropped, and errors have no values of objects.
func (c *clusterLinter) filter(ctx context.Context, b *hook.Kubernetes, res kube.Resource, add adder) error {
	if b.JQFilter == "" {
		return nil
	}
	objects, err := c.Objects(ctx, res, b, maxFiltered)
	switch {
	case apierrors.IsForbidden(err):
		add(".jqFilter", lint.Note, "no permission to try the filter on the objects", "")
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
		add(".jqFilter", lint.Warning, fmt.Sprintf("the filter fails for %d of %d objects: %v", failed, len(objects), first),
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
			required := slices.Clone(rule.Verbs)
			if slices.Contains(required, "list") { // of watched objects; get is for the hooks
				required = slices.DeleteFunc(required, func(verb string) bool { return verb == "get" })
			}
			lacking, err := c.lacking(ctx, r.Namespace, rule, required)
			if err != nil {
				return nil, err
			}
			if len(lacking) > 0 {
				missing.Rules = append(missing.Rules, rule)
			}
		}
		if len(missing.Rules) > 0 {
			roles = append(roles, missing)
		}
	}
	return roles, nil
}
