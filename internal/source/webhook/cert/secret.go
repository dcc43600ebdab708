package cert

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Secrets of the operator have this label. It is not app.kubernetes.io/managed-by, which belongs to the tool that installs
// the operator and may have created an empty Secret for it.
const (
	ownerLabel = "shell-operator/webhook-certificates"
	owner      = "managed"
)

// foreignError is the error of a Secret that the operator did not create.
type foreignError struct{ namespace, name string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("Secret %q in namespace %q was not created by the operator and is not changed: choose another name, empty it, "+
		"or label it %s=%s to have its content replaced",
		e.name, e.namespace, ownerLabel, owner)
}

// request completes a request about the Secrets of the namespace, or about one of them.
func (m *managed) request(r *rest.Request, name ...string) *rest.Request {
	return r.AbsPath(append([]string{"/api/v1/namespaces", m.Namespace, "secrets"}, name...)...).MaxRetries(0) // the caller retries
}

// read returns the Secret; nil if there is none.
func (m *managed) read(ctx context.Context) (*corev1.Secret, error) {
	raw, err := kube.Send(ctx, m.request(m.Client.Get(), m.SecretName))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, m.explain(err)
	}
	live := &corev1.Secret{}
	if err := json.Unmarshal(raw, live); err != nil {
		return nil, fmt.Errorf("cannot decode Secret %q in namespace %q", m.SecretName, m.Namespace) // the error might quote it
	}
	return live, nil
}

// write creates the Secret, or patches it, which keeps fields of other clients.
func (m *managed) write(ctx context.Context, live *corev1.Secret, next state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{ownerLabel: owner}}, Data: data}
	if live != nil {
		o.ResourceVersion = live.ResourceVersion
		_, err = kube.SendPatch(ctx, m.request(m.Client.Patch(types.MergePatchType), m.SecretName), o)
		return m.explain(err)
	}
	o.APIVersion, o.Kind, o.Type = "v1", "Secret", corev1.SecretTypeTLS
	if next.serving == nil {
		o.Type = corev1.SecretTypeOpaque
	}
	o.Name, o.Namespace = m.SecretName, m.Namespace
	_, err = kube.SendJSON(ctx, m.request(m.Client.Post()), o)
	return m.explain(err)
}

// explain adds the missing RBAC rule to an error.
func (m *managed) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no permission for Secret %q: %s: %w", m.SecretName, rule(m.Namespace, m.SecretName), err)
	}
	return fmt.Errorf("cannot reconcile Secret %q in namespace %q: %w", m.SecretName, m.Namespace, err)
}

// rule is the RBAC rule that the operator needs. Creating cannot be limited to a name; it is not needed if an empty Secret
// of that name exists.
func rule(namespace, name string) string {
	return kube.Grant(namespace,
		kube.Rule{Resource: "secrets", Names: []string{name}, Verbs: []string{"get", "watch", "patch"}},
		kube.Rule{Resource: "secrets", Verbs: []string{"create"}})
}
