package kube

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Client is the client of NewClient.
type Client = rest.Interface

// NewClient returns a client that speaks JSON about every resource. It decodes nothing but errors, and those have no values
// of objects: see redactErrors.
func NewClient(cfg *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.AcceptContentTypes = runtime.ContentTypeJSON
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.GroupVersion = &schema.GroupVersion{Version: "v1"}
	cfg.Wrap(redactErrors)
	return rest.UnversionedRESTClientFor(cfg)
}

// Send sends a request and returns the body of the response. An error has the message of the API server: Result.Raw alone
// returns "unknown" for a missing permission.
func Send(ctx context.Context, req *rest.Request) ([]byte, error) {
	result := req.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// SendJSON is Send with an object as the body.
func SendJSON(ctx context.Context, req *rest.Request, body any) ([]byte, error) {
	return SendPatch(ctx, req.SetHeader("Content-Type", runtime.ContentTypeJSON), body)
}

// SendPatch is Send with a body as JSON, whose type the request has already.
func SendPatch(ctx context.Context, req *rest.Request, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return Send(ctx, req.Body(text))
}
