package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// AccessReport compares the Roles of hooks with what is granted in a cluster.
type AccessReport struct {
	// Account is the user whose permissions were compared; empty means that of the connection.
	Account string `json:"account,omitempty"`
	// Missing are rules that are not granted, with the verbs that are not.
	Missing []AccessRule `json:"missing"`
	// Unneeded is granted in the namespaces of the hooks, and no hook needs it. Unknown is why this is not known, or not completely.
	Unneeded []AccessRule `json:"unneeded"`
	Unknown  []string     `json:"unknown,omitempty"`
	// Notes name uncertainties of the Roles.
	Notes []string `json:"notes,omitempty"`
}

// AccessRule is a rule in a namespace. For Missing, no namespace means the whole cluster; for Unneeded, all namespaces of the hooks.
type AccessRule struct {
	Namespace string   `json:"namespace,omitempty"`
	Group     string   `json:"group"`
	Resource  string   `json:"resource"`
	Names     []string `json:"resourceNames,omitempty"`
	Verbs     []string `json:"verbs"`
	// Why are the reasons of a missing rule, Hint is how to grant it.
	Why  []string `json:"why,omitempty"`
	Hint string   `json:"hint,omitempty"`
}

// CheckRBAC compares the Roles that RBAC prints with what is granted to an account: a user, or NAMESPACE/NAME of a ServiceAccount; empty
// means the user of the connection.
func CheckRBAC(ctx context.Context, o Options, r RBACOptions, account string) (report AccessReport, err error) {
	private, err := os.MkdirTemp("", "shell-operator-")
	if err != nil {
		return report, fmt.Errorf("cannot make a temp directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	p, err := planRBAC(ctx, o, &r, private)
	report.Notes = p.notes
	if err != nil {
		return report, err
	}
	cl, err := kube.Connect(o.Cluster, private)
	if err != nil {
		return report, err
	}
	report.Account = userOf(account)
	if err := checkAccount(p.hooks, r.operator(), report.Account); err != nil {
		return report, err
	}
	a, err := accessAs(ctx, cl, report.Account, &report)
	if err != nil {
		return report, err
	}
	p.roles = rolesOf(p.roles, p.hooks, report.Account)
	if report.Missing, err = a.missingRules(ctx, p.roles); err != nil {
		return report, err
	}
	report.Unneeded = []AccessRule{}
	if a.as == "" {
		err = a.unneeded(ctx, p.roles, cmp.Or(r.Namespace, "default"), &report)
	}
	return report, err
}

// unknownAccountError is the error of a ServiceAccount that is neither the operator's nor that of a tenant with hooks.
type unknownAccountError struct{ account, operator, tenants string }

func (e *unknownAccountError) Error() string {
	return fmt.Sprintf("%s is not the account of the operator or of a tenant with hooks", e.account)
}

// Hint names the accounts that are.
func (e *unknownAccountError) Hint() string {
	return fmt.Sprintf("that of the operator is %s, by --namespace and --service-account; those of tenants are %s", e.operator, e.tenants)
}

// checkAccount refuses a ServiceAccount that has no roles, if there are tenants: without them, all roles are the operator's.
func checkAccount(hooks []*hook.Hook, operator hook.ServiceAccount, user string) error {
	accounts := accountsOf(hooks)
	if len(accounts) == 0 || !strings.HasPrefix(user, serviceAccounts) || user == operator.User() {
		return nil
	}
	var names []string
	for _, a := range accounts {
		if a.User() == user {
			return nil
		}
		names = append(names, a.String())
	}
	slices.Sort(names)
	return &unknownAccountError{strings.Replace(strings.TrimPrefix(user, serviceAccounts), ":", "/", 1), operator.String(),
		strings.Join(names, ", ")}
}

// accountsOf are the accounts of tenants.
func accountsOf(hooks []*hook.Hook) (all []hook.ServiceAccount) {
	for _, h := range hooks {
		if h.Tenant != nil && !slices.Contains(all, h.Tenant.ServiceAccount) {
			all = append(all, h.Tenant.ServiceAccount)
		}
	}
	return all
}

// rolesOf returns the roles of a user: those of tenants whose account it is, otherwise the operator's.
func rolesOf(all []rbac.Role, hooks []*hook.Hook, user string) []rbac.Role {
	of := hook.ServiceAccount{}
	for _, a := range accountsOf(hooks) {
		if a.User() == user {
			of = a
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r rbac.Role) bool { return r.Account != of })
}

// accountOf names the account that a role is for, in hints.
func accountOf(r rbac.Role) kube.Account {
	if r.Account == (hook.ServiceAccount{}) {
		return kube.Account{}
	}
	return kube.Account{Name: r.Account.String()}
}

// serviceAccounts begins the names of their users.
const serviceAccounts = "system:serviceaccount:"

// userOf is the user of an account.
func userOf(account string) string {
	if namespace, name, ok := strings.Cut(account, "/"); ok && !strings.Contains(account, ":") {
		return serviceAccounts + namespace + ":" + name
	}
	return account
}

// accessAs sends reviews as a user, by impersonation. Without that permission, the API server is asked about the user, and what is granted
// besides is unknown.
func accessAs(ctx context.Context, cl *kube.Cluster, user string, report *AccessReport) (*access, error) {
	own, err := simulate.NewCluster(cl)
	if err != nil || user == "" {
		return &access{own, "", map[rbac.Permission]bool{}}, err
	}
	as, err := simulate.NewCluster(cl.As(user))
	if err != nil {
		return nil, err
	}
	a := &access{as, "", map[rbac.Permission]bool{}}
	_, err = a.rules(ctx, "default")
	if apierrors.IsForbidden(err) {
		report.Unknown = append(report.Unknown, fmt.Sprintf("what is granted and not needed: no permission to impersonate %s", user))
		return &access{own, user, map[rbac.Permission]bool{}}, nil
	}
	return a, err
}

// missingRules returns the rules of roles of which something is not granted.
func (a *access) missingRules(ctx context.Context, roles []rbac.Role) ([]AccessRule, error) {
	all := []AccessRule{}
	for _, r := range roles {
		for _, rule := range r.Rules {
			verbs, err := a.lacking(ctx, r.Namespace, rule, rule.Verbs)
			if err != nil {
				return nil, err
			}
			if len(verbs) > 0 {
				hint := accountOf(r).Grant(r.Namespace, kube.Rule{Group: rule.Group, Resource: rule.Resource, Names: rule.Names, Verbs: verbs})
				all = append(all, AccessRule{r.Namespace, rule.Group, rule.Resource, rule.Names, verbs, rule.Why, hint})
			}
		}
	}
	return all, nil
}

// rulesReview is the answer to a SelfSubjectRulesReview.
type rulesReview struct {
	Status struct {
		ResourceRules   []rbac.GrantedRule
		Incomplete      bool
		EvaluationError string
	}
}

// rules returns what is granted to the user of the connection in a namespace.
func (a *access) rules(ctx context.Context, namespace string) (answer rulesReview, err error) {
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
		"spec": map[string]string{"namespace": namespace}})
	if err != nil {
		return answer, err
	}
	text, err := kube.Send(ctx, a.Client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return answer, fmt.Errorf("cannot read the permissions in namespace %q: %w", namespace, err)
	}
	return answer, nil
}

// unneeded reports what is granted in the namespaces of the roles and in that of the operator, and that no rule needs.
func (a *access) unneeded(ctx context.Context, roles []rbac.Role, own string, report *AccessReport) error {
	namespaces := []string{own}
	for _, r := range roles {
		if r.Namespace != "" && !slices.Contains(namespaces, r.Namespace) {
			namespaces = append(namespaces, r.Namespace)
		}
	}
	slices.Sort(namespaces)
	type granted struct{ group, resource, names, verb string }
	found := map[granted][]string{} // the namespaces
	for _, namespace := range namespaces {
		answer, err := a.rules(ctx, namespace)
		if err != nil {
			return err
		}
		if answer.Status.Incomplete {
			report.Unknown = append(report.Unknown, strings.TrimSuffix(fmt.Sprintf("all that is granted in namespace %s: the API server's list "+
				"is incomplete: %s", namespace, answer.Status.EvaluationError), ": "))
		}
		for _, rule := range answer.Status.ResourceRules {
			for one := range permissionsOf(rule) {
				g := granted{one.Group, one.Resource, strings.Join(rule.Names, ","), one.Verb}
				if !neededBy(roles, namespace, one, rule.Names) && !grantedToAll(one) && !slices.Contains(found[g], namespace) {
					found[g] = append(found[g], namespace)
				}
			}
		}
	}
	type place struct{ namespace, group, resource, names string }
	byPlace := map[place][]string{} // the verbs
	for g, in := range found {
		if len(in) == len(namespaces) && len(in) > 1 {
			in = []string{""}
		}
		for _, namespace := range in {
			at := place{namespace, g.group, g.resource, g.names}
			byPlace[at] = append(byPlace[at], g.verb)
		}
	}
	for at, verbs := range byPlace {
		one := AccessRule{Namespace: at.namespace, Group: at.group, Resource: at.resource, Verbs: slices.Sorted(slices.Values(verbs))}
		if at.names != "" {
			one.Names = strings.Split(at.names, ",")
		}
		report.Unneeded = append(report.Unneeded, one)
	}
	slices.SortFunc(report.Unneeded, func(a, b AccessRule) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			slices.Compare(a.Names, b.Names))
	})
	return nil
}

// permissionsOf yields the permissions of a rule, without names.
func permissionsOf(r rbac.GrantedRule) iter.Seq[rbac.Permission] {
	return func(yield func(rbac.Permission) bool) {
		for _, group := range r.Groups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					if !yield(rbac.Permission{Verb: verb, Group: group, Resource: resource}) {
						return
					}
				}
			}
		}
	}
}

// neededBy reports whether a rule in a namespace or in all needs a permission for the named objects; none means all objects.
func neededBy(roles []rbac.Role, namespace string, p rbac.Permission, names []string) bool {
	return slices.ContainsFunc(roles, func(r rbac.Role) bool {
		return (r.Namespace == "" || r.Namespace == namespace) && slices.ContainsFunc(r.Rules, func(rule rbac.Rule) bool {
			return rule.Group == p.Group && rule.Resource == p.Resource && slices.Contains(rule.Verbs, p.Verb) &&
				(len(rule.Names) == 0 || len(names) > 0 &&
					!slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(rule.Names, name) }))
		})
	})
}

// grantedToAll reports whether Kubernetes grants a permission to every user: reviews about oneself.
func grantedToAll(p rbac.Permission) bool {
	return (p.Group == "authorization.k8s.io" || p.Group == "authentication.k8s.io") && strings.HasPrefix(p.Resource, "selfsubject")
}
