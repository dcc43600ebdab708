// Package service makes the Services by which the API server reaches webhook servers inside a cluster.
//
// Callers may rely on this:
//   - A Service that somebody else has made is used as it is, and never changed.
//   - What the operator has made carries a label, and leads to the port and the Pods of whoever started last.
//   - What a person has to mend, a permission for instance, is one warning that says how. It is no error: the Service may
//     be there all the same.
//
// Not attempted: watching. A Service that somebody deletes comes back with the next start.
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

// Services that we write carry this label. It is not app.kubernetes.io/managed-by, which belongs to whoever installs the
// operator.
const (
	ownerLabel = "shell-operator/webhook-service"
	owner      = "managed"
)

// Port is where the API server calls.
const Port = 443

// serviceOptions of a Service. All are required, but only one of Selector and Pod.
type serviceOptions struct {
	// Client speaks JSON, like that of kube.NewClient.
	Client          rest.Interface
	Namespace, Name string
	// Selector are labels of the Pods that serve. Without them, those of Pod are taken, which is the operator's own.
	Selector map[string]string
	Pod      string
	// Target is the port on which they serve.
	Target int
	Log    *slog.Logger
}

// object is as much of a Service as we read and write. A null in the selector removes a label in a patch.
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

// ensureService makes the Service, or makes it what it should be if it is ours. It waits for an API server that cannot be
// reached, and fails when the API server refuses the Service for good.
func ensureService(ctx context.Context, o serviceOptions) error {
	log := o.Log.With("service", o.Name, "namespace", o.Namespace)
	pause := time.Second
	for {
		err := o.attempt(ctx, log)
		var mend *mendError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &mend):
			log.Warn("Cannot make the Service of the webhooks: make it by hand, or mend this and restart", "hint", mend.hint, "error", mend.err.Error())
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			continue // another replica was faster
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err): // the namespace is not there
			return fmt.Errorf("cannot make Service %q in namespace %q: %w", o.Name, o.Namespace, err)
		}
		log.Warn("The Service of the webhooks has to wait for the API server", "error", err.Error(), "delay", pause.String())
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
			pause = min(2*pause, time.Minute)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mendError is what goes on until somebody mends it.
type mendError struct {
	hint string
	err  error
}

func (e *mendError) Error() string { return e.err.Error() + ": " + e.hint }
func (e *mendError) Unwrap() error { return e.err }

// mendable adds to an error of a request about Services what mends it.
func (o *serviceOptions) mendable(err error) error {
	if apierrors.IsForbidden(err) {
		return &mendError{rule(o.Namespace, o.Name), err}
	}
	return err
}

func (o *serviceOptions) attempt(ctx context.Context, log *slog.Logger) error {
	live, err := o.read(ctx)
	absent := apierrors.IsNotFound(err)
	switch {
	case absent:
	case err != nil:
		return o.mendable(err)
	case live.Metadata.Labels[ownerLabel] != owner:
		log.Info("The Service of the webhooks was made by somebody else, it is used as it is")
		return nil
	}
	if len(o.Selector) == 0 {
		if o.Selector, err = ownSelector(ctx, o.Client, o.Namespace, o.Pod); err != nil {
			return err
		}
	}
	done := "The Service of the webhooks is made"
	switch {
	case absent:
		err = o.create(ctx)
	case o.fits(live):
		return nil
	default:
		done = "The Service of the webhooks leads to this operator now"
		err = o.change(ctx, live)
	}
	if err != nil {
		return o.mendable(err)
	}
	log.Info(done, "target", o.Target, "selector", o.Selector)
	return nil
}

// removeService removes the Service if it is ours.
func removeService(ctx context.Context, o serviceOptions) error {
	live, err := o.read(ctx)
	if apierrors.IsNotFound(err) || err == nil && live.Metadata.Labels[ownerLabel] != owner {
		return nil
	}
	if err == nil {
		var body []byte
		body, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]string{"uid": live.Metadata.UID}})
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
	return o.mendable(err)
}

// patience is how long one request may take.
const patience = 30 * time.Second

// request is about Services in our namespace, or about the one that is named.
func (o *serviceOptions) request(r *rest.Request, name ...string) *rest.Request {
	// Whoever asks tries again, and wants to say why meanwhile.
	return r.AbsPath(append([]string{"/api/v1/namespaces", o.Namespace, "services"}, name...)...).MaxRetries(0).Timeout(patience)
}

func (o *serviceOptions) read(ctx context.Context) (*object, error) {
	raw, err := kube.Send(ctx, o.request(o.Client.Get(), o.Name))
	if err != nil {
		return nil, err
	}
	var live object
	return &live, json.Unmarshal(raw, &live)
}

// wanted is the Service without a name.
func (o *serviceOptions) wanted() object {
	var want object
	want.Metadata.Labels = map[string]string{ownerLabel: owner}
	want.Spec.Ports = []port{{Name: "webhooks", Protocol: "TCP", Port: Port, TargetPort: o.Target}}
	want.Spec.Selector = map[string]*string{}
	for key, value := range o.Selector {
		want.Spec.Selector[key] = &value
	}
	return want
}

// fits tells whether a Service leads to the right port of the right Pods.
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
	return ok && p.Port == Port && int(target) == o.Target
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

// rule is what the operator must be allowed. Creating cannot be limited to a name.
func rule(namespace, name string) string {
	return fmt.Sprintf(`give the operator's ServiceAccount, by a Role in namespace %q, the rules `+
		`{apiGroups: [""], resources: ["services"], resourceNames: [%q], verbs: ["get", "patch", "delete"]} and `+
		`{apiGroups: [""], resources: ["services"], verbs: ["create"]}`, namespace, name)
}
