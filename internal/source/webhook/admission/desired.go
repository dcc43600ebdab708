package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

const (
	group = "admissionregistration.k8s.io"

	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "shell-operator"
	// startedAnnotation is when the operator that wrote the object started.
	startedAnnotation = "shell-operator.io/started"
	// injectAnnotation is read by cert-manager's CA injector.
	injectAnnotation = "cert-manager.io/inject-ca-from"
)

// configuration is an object of either kind: a validating webhook has all fields of a mutating one except
// reinvocationPolicy, which is omitted when it is not set.
type configuration = admissionregistration.MutatingWebhookConfiguration

// desired returns the desired object. It keeps the metadata of other clients.
func (k *keeper) desired(live *configuration, bundle []byte) *configuration {
	want := &configuration{ObjectMeta: metav1.ObjectMeta{Name: k.name}}
	if live != nil {
		want = live.DeepCopy()
	}
	want.TypeMeta = metav1.TypeMeta{APIVersion: group + "/v1", Kind: k.kind.name}
	set(&want.Labels, managedByLabel, managedBy)
	set(&want.Annotations, injectAnnotation, k.opts.CertManager)
	want.Webhooks = nil
	for _, w := range k.webhooks {
		want.Webhooks = append(want.Webhooks, k.register(w, bundle))
	}
	return want
}

// written adds when the writing operator started. It is not part of the comparison: operators that want the same do not
// overwrite each other.
func (k *keeper) written(want *configuration) *configuration {
	set(&want.Annotations, startedAnnotation, k.started.Format(time.RFC3339Nano))
	return want
}

// set sets a value, or removes it if it is empty.
func set(all *map[string]string, key, value string) {
	if value == "" {
		delete(*all, key)
		return
	}
	if *all == nil {
		*all = map[string]string{}
	}
	(*all)[key] = value
}

// register returns a webhook with all defaults of the API server, so that it can be compared with the live one.
func (k *keeper) register(w *webhook, bundle []byte) admissionregistration.MutatingWebhook {
	b := w.binding
	return admissionregistration.MutatingWebhook{
		Name:                    b.Name,
		ClientConfig:            k.clientConfig(w, bundle),
		Rules:                   rules(b.Rules),
		FailurePolicy:           pointer(admissionregistration.FailurePolicyType(w.policy)),
		MatchPolicy:             pointer(admissionregistration.MatchPolicyType(cmp.Or(b.MatchPolicy, "Equivalent"))),
		NamespaceSelector:       k.namespaces(b.NamespaceLabels),
		ObjectSelector:          selector(b.ObjectLabels),
		SideEffects:             pointer(admissionregistration.SideEffectClass(cmp.Or(b.SideEffects, "None"))),
		TimeoutSeconds:          pointer(int32(cmp.Or(b.TimeoutSeconds, 10))),
		AdmissionReviewVersions: []string{"v1", "v1beta1"},
		ReinvocationPolicy:      reinvocation(w),
		MatchConditions:         conditions(b.MatchConditions),
	}
}

func (k *keeper) clientConfig(w *webhook, bundle []byte) admissionregistration.WebhookClientConfig {
	path := w.path
	if k.opts.Token != nil {
		path += "/" + k.opts.Token(w.path)
	}
	if k.opts.URL != "" {
		return admissionregistration.WebhookClientConfig{CABundle: bundle, URL: pointer(k.opts.URL + path)}
	}
	return admissionregistration.WebhookClientConfig{CABundle: bundle, Service: &admissionregistration.ServiceReference{
		Name: k.opts.Service.Name, Namespace: k.opts.Service.Namespace, Path: &path, Port: pointer(int32(443)),
	}}
}

// ours reports whether all webhooks of an object point to this operator.
func (k *keeper) ours(live *configuration) bool {
	for _, w := range live.Webhooks {
		c := w.ClientConfig
		service := c.Service != nil && k.opts.URL == "" && c.Service.Name == k.opts.Service.Name && c.Service.Namespace == k.opts.Service.Namespace
		url := c.URL != nil && k.opts.URL != "" && strings.HasPrefix(*c.URL, k.opts.URL+root)
		anyURL := c.URL != nil && k.opts.AnyURL && live.Labels[managedByLabel] == managedBy && strings.Contains(*c.URL, root)
		if !service && !url && !anyURL {
			return false
		}
	}
	return len(live.Webhooks) > 0 || live.Labels[managedByLabel] == managedBy
}

func rules(list []hook.Rule) []admissionregistration.RuleWithOperations {
	var out []admissionregistration.RuleWithOperations
	for _, r := range list {
		rule := admissionregistration.RuleWithOperations{Rule: admissionregistration.Rule{
			APIGroups: r.APIGroups, APIVersions: r.APIVersions, Resources: r.Resources,
			Scope: pointer(admissionregistration.ScopeType(cmp.Or(r.Scope, "*"))),
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
	byName = byName || slices.ContainsFunc(out.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == corev1.LabelMetadataName })
	if len(k.opts.ExcludeNamespaces) > 0 && !byName {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: k.opts.ExcludeNamespaces,
		})
	}
	return out
}

func selector(s *hook.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if s == nil {
		return out
	}
	out.MatchLabels = s.MatchLabels
	for _, e := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	return out
}

func reinvocation(w *webhook) *admissionregistration.ReinvocationPolicyType {
	if w.typ != event.Mutating {
		return nil
	}
	return pointer(admissionregistration.ReinvocationPolicyType(cmp.Or(w.binding.ReinvocationPolicy, "Never")))
}

func conditions(list []hook.MatchCondition) []admissionregistration.MatchCondition {
	var out []admissionregistration.MatchCondition
	for _, c := range list {
		out = append(out, admissionregistration.MatchCondition{Name: c.Name, Expression: c.Expression})
	}
	return out
}

func pointer[T any](v T) *T { return &v }
