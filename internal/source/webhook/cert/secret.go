package cert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// SecretOptions of an InSecret Source. All but Names are required.
type SecretOptions struct {
	// Client is one of kube.NewClient.
	Client                rest.Interface
	Namespace, SecretName string
	// Names are the DNS names and IP addresses of the server. Without any there are no certificates, only the secret of paths.
	Names []string
	Log   *slog.Logger
}

// inSecret is a Source whose state is in a Secret. The constructor owns the state, and then Run.
type inSecret struct {
	*Source
	SecretOptions
	state state
}

// InSecret returns a Source that creates a CA and the secret of paths, and stores them in one Secret for all replicas. A Secret that is
// deleted or emptied is restored. InSecret waits for an API server that cannot be reached.
//
// To force a new CA, remove the key ca.key from the Secret. For a new secret of paths, move path.secret to path.previous.
//
// Without permissions on the Secret, InSecret logs one warning that names them, and keeps the state in memory, which is correct for one
// replica only.
func InSecret(ctx context.Context, o SecretOptions) (*Source, error) {
	if o.Namespace == "" || o.SecretName == "" {
		return nil, errors.New("webhook certificates need the namespace of the operator and the name of a Secret to be kept in")
	}
	m := &inSecret{SecretOptions: o}
	kept := &keep.Object{
		One:       kube.One{Client: o.Client, Path: []string{"/api/v1/namespaces", o.Namespace, "secrets"}, Name: o.SecretName},
		Reconcile: m.reconcile, Report: func(error) {}, Explain: m.explain, Log: o.Log,
		Failed: "Webhook certificates cannot be kept fresh, the last ones stay in use. Will retry after delay.",
	}
	m.Source = newSource(o.Names, func(ctx context.Context) error { kept.Run(ctx); return nil })
	for failures := 1; ; failures++ {
		err := kept.Attempt(ctx)
		switch {
		case err == nil:
			return m.Source, nil
		case ctx.Err() != nil, errors.As(err, new(*foreignError)), apierrors.IsNotFound(err), apierrors.IsInvalid(err):
			return nil, err
		case apierrors.IsForbidden(err):
			o.Log.Warn("Webhook certificates cannot be kept in a Secret. They are created for this process, which is correct "+
				"for one replica only. Grant the permissions and restart", "error", err.Error())
			return InMemory(o.Names...)
		}
		delay := keep.RetryDelay(failures)
		o.Log.Warn("Webhook certificates have to wait for the API server", "error", err.Error(), "delay", delay.String())
		kube.Wait(ctx, delay, nil)
	}
}

// reconcile adopts the state in the Secret, and adds what it lacks.
func (m *inSecret) reconcile(ctx context.Context) error {
	live, err := m.read(ctx)
	if err != nil {
		return err
	}
	// Without a state in the Secret, this process keeps its own, so that clients do not notice. An empty Secret belongs to the operator,
	// so that it needs no permission to create Secrets, which RBAC cannot limit to one name.
	next, lost := m.state, live == nil || empty(live.Data)
	if !lost {
		if live.Labels[ownerLabel] != owner && len(live.Data[pathKey]) == 0 {
			return &foreignError{m.Namespace, m.SecretName}
		}
		next = decode(live.Data)
	}
	why, err := next.complete(time.Now(), len(m.Names) > 0)
	if err != nil {
		return err
	}
	if lost && m.state.secrets[0] != "" {
		why = append(why, "they were deleted")
	}
	if len(why) > 0 {
		if err := m.write(ctx, live, next); err != nil {
			return err
		}
	}
	for _, reason := range why {
		m.Log.Info("Webhook certificates changed", "reason", reason)
	}
	m.state = next
	m.show(next.shown())
	return nil
}

func empty(data map[string][]byte) bool {
	for _, value := range data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

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
func (m *inSecret) request(r *rest.Request, name ...string) *rest.Request {
	return r.AbsPath(append([]string{"/api/v1/namespaces", m.Namespace, "secrets"}, name...)...).MaxRetries(0) // the caller retries
}

// read returns the Secret; nil if there is none.
func (m *inSecret) read(ctx context.Context) (*corev1.Secret, error) {
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
func (m *inSecret) write(ctx context.Context, live *corev1.Secret, next state) error {
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
	o.APIVersion, o.Kind = "v1", "Secret"
	o.Name, o.Namespace = m.SecretName, m.Namespace
	_, err = kube.SendJSON(ctx, m.request(m.Client.Post()), o)
	return m.explain(err)
}

// explain adds the missing RBAC rule to an error.
func (m *inSecret) explain(err error) error {
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
