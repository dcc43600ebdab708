package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// passing are labels that replicas do not share, or that change with each version of an installation. A Service that
// selected them would lead nowhere for a while, or to one replica only.
var passing = []string{
	"pod-template-hash", "pod-template-generation", "controller-revision-hash",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	"app.kubernetes.io/version", "helm.sh/chart",
}

// ownSelector returns the labels of a Pod that are likely to be those of its replicas, too.
func ownSelector(ctx context.Context, client rest.Interface, namespace, pod string) (map[string]string, error) {
	const give = "give --webhook-service-selector"
	raw, err := kube.Send(ctx, client.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod).MaxRetries(0).Timeout(patience))
	switch {
	case apierrors.IsForbidden(err):
		return nil, &mendError{fmt.Sprintf(give+`, or let the operator look at its own labels: give its ServiceAccount, by a Role in namespace %q, the rule {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`, namespace), err}
	case apierrors.IsNotFound(err):
		return nil, &mendError{"set POD_NAME in the Pod from its field metadata.name, or " + give, err}
	case err != nil:
		return nil, err
	}
	var o struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("cannot read Pod %q: %w", pod, err)
	}
	maps.DeleteFunc(o.Metadata.Labels, func(key, _ string) bool { return slices.Contains(passing, key) })
	if len(o.Metadata.Labels) == 0 {
		return nil, &mendError{give, fmt.Errorf("the Pod %q has no labels by which a Service could select it", pod)}
	}
	return o.Metadata.Labels, nil
}
