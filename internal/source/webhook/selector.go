package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// unstable labels differ between replicas or between versions of an installation. A Service that selected them would have
// no endpoints during an update, or one replica only.
var unstable = []string{
	"pod-template-hash", "pod-template-generation", "controller-revision-hash",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"app.kubernetes.io/version", "helm.sh/chart",
}

// ownSelector returns the labels of a Pod that its replicas share.
func ownSelector(ctx context.Context, client rest.Interface, namespace, pod string) (map[string]string, error) {
	const set = "set --webhook-service-selector"
	raw, err := kube.Send(ctx, client.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod).MaxRetries(0).Timeout(requestTimeout))
	switch {
	case apierrors.IsForbidden(err):
		return nil, &hintError{fmt.Sprintf(set+`, or let the operator read its own labels: give its ServiceAccount, by a Role in namespace %q, `+
			`the rule {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`, namespace), err}
	case apierrors.IsNotFound(err):
		return nil, &hintError{"set POD_NAME in the Pod from its field metadata.name, or " + set, err}
	case err != nil:
		return nil, err
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("cannot read Pod %q: %w", pod, err)
	}
	maps.DeleteFunc(o.Labels, func(key, _ string) bool { return slices.Contains(unstable, key) })
	if len(o.Labels) == 0 {
		return nil, &hintError{set, fmt.Errorf("the Pod %q has no labels by which a Service could select it", pod)}
	}
	return o.Labels, nil
}
