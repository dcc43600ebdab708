package admission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

const (
	group = "admissionregistration.k8s.io"

	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "shell-operator"
	// startedAnnotation is the number of the operator that wrote the object: the one that started later has a higher one.
	startedAnnotation = "shell-operator.io/started"
	// versionAnnotation identifies the webhooks of all its hooks. Replicas with the same ones add to the object what is ready with them.
	versionAnnotation = "shell-operator.io/webhooks"
)

// configuration is an object of either kind: a validating webhook has all fields of a mutating one except
// reinvocationPolicy, which is omitted when it is not set.
type configuration = admissionregistration.MutatingWebhookConfiguration

type registration = admissionregistration.MutatingWebhook

// desired returns the desired object. It keeps the metadata of other clients: the label names the creator.
func (k *keeper) desired(live *configuration, bundle []byte) *configuration {
	want := &configuration{ObjectMeta: metav1.ObjectMeta{Name: k.Name, Labels: map[string]string{managedByLabel: managedBy}}}
	if live != nil {
		want = live.DeepCopy()
	}
	want.TypeMeta = metav1.TypeMeta{APIVersion: group + "/v1", Kind: k.kind.name}
	if delete(want.Annotations, keep.InjectAnnotation); k.opts.CertManager != "" {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, keep.InjectAnnotation, k.opts.CertManager)
	}
	want.Webhooks = k.merge(live, bundle)
	return want
}

// bundle returns the CAs of the desired object. With cert-manager the object in the cluster has them.
func (k *keeper) bundle(live *configuration) []byte {
	if k.opts.CertManager == "" {
		return k.opts.Bundle()
	}
	if live != nil {
		for _, w := range live.Webhooks {
			if len(w.ClientConfig.CABundle) > 0 {
				return w.ClientConfig.CABundle
			}
		}
	}
	return nil
}

// merge returns the webhooks of the bindings that are ready, in the order of the hooks, and what is registered until its successor is
// ready: the binding of its name, or the hook that it calls.
func (k *keeper) merge(live *configuration, bundle []byte) (all []registration) {
	var registered []registration
	if live != nil {
		registered = slices.DeleteFunc(slices.Clone(live.Webhooks), func(w registration) bool { return !k.isOurs(&w, "") })
	}
	for _, h := range append(slices.Clone(k.opts.Hooks), nil) {
		for _, w := range k.webhooks {
			same := slices.IndexFunc(registered, func(r registration) bool { return r.Name == w.binding.Name })
			switch {
			case w.hook != h:
			case k.opts.Ready(h, w.address()):
				all = append(all, k.register(w, bundle))
			case same >= 0:
				all = append(all, registered[same])
			}
		}
		for _, w := range registered {
			if next, stays := k.renamed(&w, registered); stays && next == h {
				all = append(all, w)
			}
		}
	}
	return all
}

// renamed returns the hook that a registered webhook calls, if no binding has its name, and reports whether the webhook stays: while a
// binding of this hook waits whose name is not registered, because it may be the renamed one. Any other was removed, and stays while hooks
// start, for leaveFor at most: a binding that waits may have its policy, but it may deny the writes that others need to become ready.
func (k *keeper) renamed(w *registration, registered []registration) (calls *hook.Hook, stays bool) {
	if k.names(w) {
		return nil, false
	}
	for _, h := range k.opts.Hooks {
		if len(h.Validating)+len(h.Mutating) > 0 && k.leadsTo(w, h) {
			if stays = k.waits(h, registered); stays || !k.waits(h, nil) {
				return h, stays
			}
		}
	}
	return nil, time.Since(k.began) < leaveFor &&
		slices.ContainsFunc(k.opts.Hooks, func(h *hook.Hook) bool { return k.waits(h, nil) && k.opts.Stuck(h) == "" })
}

// names reports whether a binding has the name of a registered webhook.
func (k *keeper) names(w *registration) bool {
	return slices.ContainsFunc(k.webhooks, func(next *webhook) bool { return next.binding.Name == w.Name })
}

// waits reports whether an admission binding of a hook is not ready, and not registered already.
func (k *keeper) waits(h *hook.Hook, registered []registration) bool {
	for a, b := range h.Bindings() {
		known := a.Kind == k.kind.typ.Kind() && slices.ContainsFunc(registered, func(r registration) bool { return r.Name == b.Name })
		if (a.Kind == hook.OnValidating || a.Kind == hook.OnMutating) && !known && !k.opts.Ready(h, a) {
			return true
		}
	}
	return false
}

// leadsTo reports whether a webhook in the cluster calls a hook.
func (k *keeper) leadsTo(w *admissionregistration.MutatingWebhook, h *hook.Hook) bool {
	at, path := strings.TrimPrefix(keep.PathOf(w.ClientConfig), k.opts.URL), pathOf(h.Name, k.kind.typ, w.Name)
	token, ok := strings.CutPrefix(at, path+"/")
	return at == path || ok && !strings.Contains(token, "/")
}

// written adds which operator writes the object. That is not part of the comparison: operators that want the same do not overwrite each
// other.
func (k *keeper) written(live, want *configuration) *configuration {
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, startedAnnotation, strconv.Itoa(max(k.number, numberOf(live))))
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, versionAnnotation, k.version)
	return want
}

// hash identifies the webhooks of all hooks, without what changes while they are registered: certificates and tokens of paths.
func (k *keeper) hash() string {
	all := sha256.New()
	fmt.Fprintln(all, k.opts.Service, k.opts.URL, k.opts.CertManager)
	for _, w := range k.webhooks {
		registered := k.register(w, nil)
		registered.ClientConfig = admissionregistration.WebhookClientConfig{}
		text, _ := json.Marshal(registered) // cannot fail
		fmt.Fprintln(all, w.path, string(text))
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// register returns a webhook with all defaults of the API server, so that it can be compared with the live one.
func (k *keeper) register(w *webhook, bundle []byte) admissionregistration.MutatingWebhook {
	b := w.binding
	return admissionregistration.MutatingWebhook{
		Name:                    b.Name,
		ClientConfig:            k.opts.ClientConfig(w.path, bundle),
		Rules:                   rules(b.Rules),
		FailurePolicy:           new(admissionregistration.FailurePolicyType(w.policy)),
		MatchPolicy:             new(admissionregistration.MatchPolicyType(cmp.Or(b.MatchPolicy, "Equivalent"))),
		NamespaceSelector:       k.namespaces(b.NamespaceLabels),
		ObjectSelector:          selector(b.ObjectLabels),
		SideEffects:             new(admissionregistration.SideEffectClass(cmp.Or(b.SideEffects, "None"))),
		TimeoutSeconds:          new(int32(cmp.Or(b.TimeoutSeconds, 10))),
		AdmissionReviewVersions: []string{"v1", "v1beta1"},
		ReinvocationPolicy:      reinvocation(w),
		MatchConditions:         k.conditions(b.MatchConditions),
	}
}

// ours reports whether all webhooks of an object point to this operator.
func (k *keeper) ours(live *configuration) bool {
	for i := range live.Webhooks {
		if !k.isOurs(&live.Webhooks[i], live.Labels[managedByLabel]) {
			return false
		}
	}
	return len(live.Webhooks) > 0 || created(live)
}

// isOurs reports whether a webhook points to this operator. Label is the managed-by label of its object.
func (k *keeper) isOurs(w *admissionregistration.MutatingWebhook, label string) bool {
	c := w.ClientConfig
	service := c.Service != nil && k.opts.URL == "" && c.Service.Name == k.opts.Service.Name && c.Service.Namespace == k.opts.Service.Namespace
	url := c.URL != nil && k.opts.URL != "" && strings.HasPrefix(*c.URL, k.opts.URL+root)
	anyURL := c.URL != nil && k.opts.AnyURL && label == managedBy && strings.Contains(*c.URL, root)
	return service || url || anyURL
}

func rules(list []hook.Rule) []admissionregistration.RuleWithOperations {
	var out []admissionregistration.RuleWithOperations
	for _, r := range list {
		rule := admissionregistration.RuleWithOperations{Rule: admissionregistration.Rule{
			APIGroups: r.APIGroups, APIVersions: r.APIVersions, Resources: r.Resources,
			Scope: new(admissionregistration.ScopeType(cmp.Or(r.Scope, "*"))),
		}}
		for _, o := range r.Operations {
			rule.Operations = append(rule.Operations, admissionregistration.OperationType(o))
		}
		out = append(out, rule)
	}
	return out
}

// namespaces is the selector of a binding, without the excluded namespaces. A binding that selects namespaces by name asks for
// exactly these.
func (k *keeper) namespaces(s *hook.LabelSelector) *metav1.LabelSelector {
	out := selector(s)
	_, byName := out.MatchLabels[corev1.LabelMetadataName]
	byName = byName || slices.ContainsFunc(out.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == corev1.LabelMetadataName
	})
	if len(k.opts.ExcludeNamespaces) > 0 && !byName {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: k.opts.ExcludeNamespaces,
		})
	}
	return out
}

func selector(s *hook.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s.DeepCopy()
}

func reinvocation(w *webhook) *admissionregistration.ReinvocationPolicyType {
	if w.typ != event.Mutating {
		return nil
	}
	return new(admissionregistration.ReinvocationPolicyType(cmp.Or(w.binding.ReinvocationPolicy, "Never")))
}

// conditions adds to the conditions of a binding the one that excludes clients.
func (k *keeper) conditions(list []hook.MatchCondition) []admissionregistration.MatchCondition {
	out := slices.Clone(list)
	if expression := excluding(k.opts.ExcludeUsers, k.opts.ExcludeGroups); expression != "" {
		out = append(out, admissionregistration.MatchCondition{Name: excludedClients, Expression: expression})
	}
	return out
}

// excludedClients is the name of the condition that excludes clients.
const excludedClients = "shell-operator-excluded-clients"

// excluding is the CEL expression that is false for requests of the users and of members of the groups; empty without any.
func excluding(users, groups []string) string {
	var terms []string
	if len(users) > 0 {
		terms = append(terms, "!(request.userInfo.username in "+celList(users)+")")
	}
	if len(groups) > 0 {
		terms = append(terms, "!(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in "+celList(groups)+"))")
	}
	return strings.Join(terms, " && ")
}

// celList is a list of strings in CEL, whose strings have the escapes of Go.
func celList(texts []string) string {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, strconv.QuoteToASCII(text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
