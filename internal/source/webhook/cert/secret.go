package cert

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
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

// secretObject has the fields that the operator reads and writes. It writes patches, which keep all other fields.
type secretObject struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   secretMeta        `json:"metadata"`
	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data"`
}

type secretMeta struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

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
	var o secretObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return kept{}, fmt.Errorf("cannot decode Secret %q in namespace %q", s.name, s.namespace) // the error might quote it
	}
	return s.interpret(o)
}

// interpret decides whether a Secret belongs to the operator. An empty one does: so the operator needs no permission to
// create Secrets, which RBAC cannot limit to one name.
func (s *secret) interpret(o secretObject) (kept, error) {
	found := kept{version: o.Metadata.ResourceVersion}
	if o.empty() {
		return found, errAbsent
	}
	var problem error
	found.state, problem = decode(o.Data)
	if problem == nil && len(o.Data[authorityKeyKey]) > 0 {
		return found, nil
	}
	if o.Metadata.Labels[ownerLabel] != owner {
		return kept{}, &foreignError{s.namespace, s.name}
	}
	if problem != nil {
		return found, &damagedError{fmt.Errorf("the Secret %q in namespace %q: %w", s.name, s.namespace, problem)}
	}
	return found, nil
}

func (o secretObject) empty() bool {
	for _, value := range o.Data {
		if len(value) > 0 {
			return false
		}
	}
	return true
}

func (s *secret) write(ctx context.Context, old kept, next state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	verb := "patch"
	o := secretObject{Metadata: secretMeta{ResourceVersion: old.version, Labels: map[string]string{ownerLabel: owner}}, Data: data}
	req := s.request(s.client.Patch(types.MergePatchType), s.name)
	if old.version == "" {
		verb = "create"
		o.APIVersion, o.Kind, o.Type = "v1", "Secret", "kubernetes.io/tls"
		o.Metadata.Name, o.Metadata.Namespace = s.name, s.namespace
		req = s.request(s.client.Post()).SetHeader("Content-Type", runtime.ContentTypeJSON)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	err = req.Body(body).Do(ctx).Error()
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
