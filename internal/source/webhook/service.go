package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	case live.Labels[ownerLabel] != owner:
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
	if apierrors.IsNotFound(err) || err == nil && live.Labels[ownerLabel] != owner {
		return nil
	}
	if err == nil && o.DryRun {
		o.Log.Info("Dry run: the Service of the webhooks would be removed", "service", o.Name, "namespace", o.Namespace)
		return nil
	}
	if err == nil {
		_, err = kube.SendJSON(ctx, o.request(o.Client.Delete(), o.Name), metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &live.UID},
		})
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

func (o *serviceOptions) read(ctx context.Context) (*corev1.Service, error) {
	raw, err := kube.Send(ctx, o.request(o.Client.Get(), o.Name))
	if err != nil {
		return nil, err
	}
	var live corev1.Service
	return &live, json.Unmarshal(raw, &live)
}

func (o *serviceOptions) ports() []corev1.ServicePort {
	target := intstr.FromInt32(int32(o.Target))
	return []corev1.ServicePort{{Name: "webhooks", Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: target}}
}

// fits reports whether a Service has the right selector and port.
func (o *serviceOptions) fits(live *corev1.Service) bool {
	ports := live.Spec.Ports
	return len(ports) == 1 && ports[0].Port == servicePort && ports[0].TargetPort == intstr.FromInt32(int32(o.Target)) &&
		maps.Equal(live.Spec.Selector, o.Selector)
}

func (o *serviceOptions) create(ctx context.Context) error {
	_, err := kube.SendJSON(ctx, o.request(o.Client.Post()), &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: map[string]string{ownerLabel: owner}},
		Spec:       corev1.ServiceSpec{Selector: o.Selector, Ports: o.ports()},
	})
	return err
}

func (o *serviceOptions) change(ctx context.Context, live *corev1.Service) error {
	selector := map[string]any{}
	for key := range live.Spec.Selector {
		selector[key] = nil // which removes a label that is not wanted any more
	}
	for key, value := range o.Selector {
		selector[key] = value
	}
	_, err := kube.SendPatch(ctx, o.request(o.Client.Patch(types.MergePatchType), o.Name), map[string]any{
		"metadata": map[string]any{"resourceVersion": live.ResourceVersion, "labels": map[string]string{ownerLabel: owner}},
		"spec":     map[string]any{"selector": selector, "ports": o.ports()},
	})
	return err
}

// rule has the RBAC rules that the operator needs. Creating cannot be limited to a name.
func rule(namespace, name string) string {
	return kube.Grant(namespace,
		kube.Rule{Resource: "services", Names: []string{name}, Verbs: []string{"get", "patch", "delete"}},
		kube.Rule{Resource: "services", Verbs: []string{"create"}})
}

// checkServices rejects one Service for both servers.
func checkServices(admission, conversion *served) error {
	if admission == nil || conversion == nil {
		return nil
	}
	if a, c := admission.made, conversion.made; a != nil && c != nil && a.Name == c.Name && a.Namespace == c.Namespace {
		return fmt.Errorf("with --webhook-create-services, --validating-webhook-service-name and --conversion-webhook-service-name cannot both "+
			"be %q: port 443 of a Service leads to one server", a.Name)
	}
	return nil
}

// removeServices deletes the Services that an operator has created, if it was configured to.
func removeServices(ctx context.Context, client rest.Interface, o Options) error {
	if !o.Webhooks.CreateServices {
		return nil
	}
	var errs []error
	for _, server := range []WebhookServer{o.Webhooks.Admission, o.Webhooks.Conversion} {
		at, err := endpointOf(o.Cluster, o.Webhooks, server)
		if err == nil && at.namespace != "" {
			err = removeService(ctx, serviceOptions{Client: client, Namespace: at.namespace, Name: server.ServiceName, DryRun: o.DryRun, Log: o.Log})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
