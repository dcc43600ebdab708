package cert

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// secret is the store of all replicas: one Secret.
type secret struct {
	client          rest.Interface
	namespace, name string
	log             *slog.Logger
}

var _ store = (*secret)(nil)

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

// requestTimeout bounds one request. Watches have a timeout of their own.
const requestTimeout = 30 * time.Second

// request completes a request about the Secrets of the namespace, or about one of them.
func (s *secret) request(r *rest.Request, name ...string) *rest.Request {
	// Callers retry by themselves, and log the reason.
	return r.AbsPath(append([]string{"/api/v1/namespaces", s.namespace, "secrets"}, name...)...).MaxRetries(0).Timeout(requestTimeout)
}

func (s *secret) read(ctx context.Context) (kept, error) {
	raw, err := kube.Send(ctx, s.request(s.client.Get(), s.name))
	if apierrors.IsNotFound(err) {
		return kept{}, errAbsent
	}
	if err != nil {
		return kept{}, s.explain("get", err)
	}
	var o corev1.Secret
	if err := json.Unmarshal(raw, &o); err != nil {
		return kept{}, fmt.Errorf("cannot decode Secret %q in namespace %q", s.name, s.namespace) // the error might quote it
	}
	return s.interpret(&o)
}

// interpret decides whether a Secret belongs to the operator. An empty one does: so the operator needs no permission to
// create Secrets, which RBAC cannot limit to one name.
func (s *secret) interpret(o *corev1.Secret) (kept, error) {
	found := kept{version: o.ResourceVersion}
	if empty(o.Data) {
		return found, errAbsent
	}
	var problem error
	found.state, problem = decode(o.Data)
	if problem == nil && len(o.Data[authorityKeyKey])+len(o.Data[pathKey]) > 0 {
		return found, nil
	}
	if o.Labels[ownerLabel] != owner {
		return kept{}, &foreignError{s.namespace, s.name}
	}
	if problem != nil {
		return found, &damagedError{fmt.Errorf("the Secret %q in namespace %q: %w", s.name, s.namespace, problem)}
	}
	return found, nil
}

func empty(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

// write patches the Secret, which keeps fields of other clients.
func (s *secret) write(ctx context.Context, old kept, next state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	verb := "patch"
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: old.version, Labels: map[string]string{ownerLabel: owner}}, Data: data}
	if old.version == "" {
		verb = "create"
		o.APIVersion, o.Kind, o.Type = "v1", "Secret", corev1.SecretTypeTLS
		if next.serving == nil {
			o.Type = corev1.SecretTypeOpaque
		}
		o.Name, o.Namespace = s.name, s.namespace
		_, err = kube.SendJSON(ctx, s.request(s.client.Post()), o)
	} else {
		_, err = kube.SendPatch(ctx, s.request(s.client.Patch(types.MergePatchType), s.name), o)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), verb == "patch" && apierrors.IsNotFound(err):
		return errConflict
	}
	return s.explain(verb, err)
}

// explain adds the verb and a hint to an error.
func (s *secret) explain(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no permission to %s Secret %q: %s: %w", verb, s.name, rule(s.namespace, s.name), err)
	}
	return fmt.Errorf("cannot %s Secret %q in namespace %q: %w", verb, s.name, s.namespace, err)
}

// rule is the RBAC rule that the operator needs. Creating cannot be limited to a name; it is not needed if an empty Secret
// of that name exists.
func rule(namespace, name string) string {
	return kube.Grant(namespace,
		kube.Rule{Resource: "secrets", Names: []string{name}, Verbs: []string{"get", "watch", "patch"}},
		kube.Rule{Resource: "secrets", Verbs: []string{"create"}})
}

// follow watches the Secret. Where that is not possible, the keeper reads the Secret once a minute.
func (s *secret) follow(ctx context.Context, wake chan<- struct{}) {
	var reported trouble
	one := kube.One{Client: s.client, Path: []string{"/api/v1/namespaces", s.namespace, "secrets"}, Name: s.name}
	one.Follow(ctx, kube.Backoff{}, wake, func(err error) {
		reported.log(s.log, "Webhook certificates cannot be watched, changes are noticed within a minute",
			"Webhook certificates are watched again", s.explain("watch", err))
	})
}
