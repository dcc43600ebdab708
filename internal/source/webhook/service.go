package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Services of the operator have this label. It is not app.kubernetes.io/managed-by, which belongs to the tool that
// installs the operator. Other Services are used unchanged.
const (
	ownerLabel = "shell-operator/webhook-service"
	owner      = "managed"
)

// servicePort is the port that the API server calls.
const servicePort = 443

// serviceOptions of a Service. All are required, but only one of Selector and Pod.
type serviceOptions struct {
	// Client is one of kube.NewClient.
	Client          rest.Interface
	Namespace, Name string
	// Selector are the labels of the operator's Pods; by default those of Pod, which is its own.
	Selector map[string]string
	Pod      string
	// Target is the port on which the Pods serve.
	Target int
	// DryRun makes removeService log what it would do.
	DryRun bool
	Log    *slog.Logger
}

// object has the fields of a Service that the operator reads and writes. A null in the selector removes a label in a patch.
type object struct {
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Metadata   metadata `json:"metadata"`
	Spec       struct {
		Selector map[string]*string `json:"selector"`
		Ports    []port             `json:"ports"`
	} `json:"spec"`
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

type port struct {
	Name       string `json:"name"`
	Protocol   string `json:"protocol"`
	Port       int    `json:"port"`
	TargetPort any    `json:"targetPort"`
}

// ensureService creates the Service, or updates it if the operator has created it: it selects the Pods of the operator that
// started last. It waits for an API server that cannot be reached, and fails if the API server rejects the Service. Missing
// permissions are one warning with a hint and no error, as the Service may exist. The Service is not watched: a deleted one
// is restored at the next start or reload. Each failure is reported, and that it has ended.
func ensureService(ctx context.Context, o serviceOptions, report func(error)) error {
	log := o.Log.With("service", o.Name, "namespace", o.Namespace)
	pause := time.Second
	for {
		err := o.attempt(ctx, log)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			report(err)
		}
		var hinted *hintError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &hinted):
			log.Warn("Cannot make the Service of the webhooks: create it by hand, or follow the hint and restart", "hint", hinted.hint,
				"error", hinted.err.Error())
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			continue // another replica was first
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err): // the namespace does not exist
			return fmt.Errorf("cannot make Service %q in namespace %q: %w", o.Name, o.Namespace, err)
		}
		log.Warn("The Service of the webhooks has to wait for the API server", "error", err.Error(), "delay", pause.String())
		if !kube.Wait(ctx, pause/2+rand.N(pause/2), nil) {
			return ctx.Err()
		}
		pause = min(2*pause, time.Minute)
	}
}

// hintError is an error that lasts until its user follows the hint.
type hintError struct {
	hint string
	err  error
}

func (e *hintError) Error() string { return e.err.Error() + ": " + e.hint }
func (e *hintError) Unwrap() error { return e.err }

// withHint adds the missing RBAC rule to an error.
func (o *serviceOptions) withHint(err error) error {
	if apierrors.IsForbidden(err) {
		return &hintError{rule(o.Namespace, o.Name), err}
	}
	return err
}

func (o *serviceOptions) attempt(ctx context.Context, log *slog.Logger) error {
	live, err := o.read(ctx)
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
	case err != nil:
		return o.withHint(err)
	case live.Metadata.Labels[ownerLabel] != owner:
		log.Info("The Service of the webhooks was not created by the operator and is used unchanged")
		return nil
	}
	if len(o.Selector) == 0 {
		if o.Selector, err = ownSelector(ctx, o.Client, o.Namespace, o.Pod); err != nil {
			return err
		}
	}
	done := "The Service of the webhooks is created"
	switch {
	case absent:
		err = o.create(ctx)
	case o.fits(live):
		return nil
	default:
		done = "The Service of the webhooks selects this operator now"
		err = o.change(ctx, live)
	}
	if err != nil {
		return o.withHint(err)
	}
	log.Info(done, "target", o.Target, "selector", o.Selector)
	return nil
}

// removeService deletes the Service if the operator has created it.
func removeService(ctx context.Context, o serviceOptions) error {
	live, err := o.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && live.Metadata.Labels[ownerLabel] != owner {
		return nil
	}
	if err == nil && o.DryRun {
		o.Log.Info("Dry run: the Service of the webhooks would be removed", "service", o.Name, "namespace", o.Namespace)
		return nil
	}
	if err == nil {
		var body []byte
		body, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": map[string]string{"uid": live.Metadata.UID}})
		if err == nil {
			err = o.request(o.Client.Delete(), o.Name).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
		}
	}
	switch {
	case err == nil:
		o.Log.Info("The Service of the webhooks is removed", "service", o.Name, "namespace", o.Namespace)
	case apierrors.IsNotFound(err):
		return nil
	}
	return o.withHint(err)
}

// requestTimeout bounds one request.
const requestTimeout = 30 * time.Second

// request completes a request about the Services of the namespace, or about one of them.
func (o *serviceOptions) request(r *rest.Request, name ...string) *rest.Request {
	// Callers retry by themselves, and log the reason.
	return r.AbsPath(append([]string{"/api/v1/namespaces", o.Namespace, "services"}, name...)...).MaxRetries(0).Timeout(requestTimeout)
}

func (o *serviceOptions) read(ctx context.Context) (*object, error) {
	raw, err := kube.Send(ctx, o.request(o.Client.Get(), o.Name))
	if err != nil {
		return nil, err
	}
	var live object
	return &live, json.Unmarshal(raw, &live)
}

// wanted is the desired Service without a name.
func (o *serviceOptions) wanted() object {
	var want object
	want.Metadata.Labels = map[string]string{ownerLabel: owner}
	want.Spec.Ports = []port{{Name: "webhooks", Protocol: "TCP", Port: servicePort, TargetPort: o.Target}}
	want.Spec.Selector = map[string]*string{}
	for key, value := range o.Selector {
		want.Spec.Selector[key] = &value
	}
	return want
}

// fits reports whether a Service has the right selector and port.
func (o *serviceOptions) fits(live *object) bool {
	selector := map[string]string{}
	for key, value := range live.Spec.Selector {
		if value != nil {
			selector[key] = *value
		}
	}
	if len(live.Spec.Ports) != 1 || !maps.Equal(selector, o.Selector) {
		return false
	}
	p := live.Spec.Ports[0]
	target, ok := p.TargetPort.(float64)
	return ok && p.Port == servicePort && int(target) == o.Target
}

func (o *serviceOptions) create(ctx context.Context) error {
	want := o.wanted()
	want.APIVersion, want.Kind, want.Metadata.Name = "v1", "Service", o.Name
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return o.request(o.Client.Post()).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

func (o *serviceOptions) change(ctx context.Context, live *object) error {
	want := o.wanted()
	want.Metadata.ResourceVersion = live.Metadata.ResourceVersion
	for key := range live.Spec.Selector {
		if _, keep := want.Spec.Selector[key]; !keep {
			want.Spec.Selector[key] = nil
		}
	}
	body, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return o.request(o.Client.Patch(types.MergePatchType), o.Name).Body(body).Do(ctx).Error()
}

// rule has the RBAC rules that the operator needs. Creating cannot be limited to a name.
func rule(namespace, name string) string {
	return kube.Grant(namespace,
		kube.Rule{Resource: "services", Names: []string{name}, Verbs: []string{"get", "patch", "delete"}},
		kube.Rule{Resource: "services", Verbs: []string{"create"}})
}
