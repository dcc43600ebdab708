package kube

import (
	"context"
	"net/http"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// warned is the key of the receiver of warnings.
type warned struct{}

// WithWarnings makes receive get the warnings of the API server to requests with the context, which client-go logs otherwise. They are
// redacted. About is the object, or for a request to create one its kind and namespace, as far as the path of the request has them:
// "services shop/web". Receive may be called concurrently.
func WithWarnings(ctx context.Context, receive func(about, text string)) context.Context {
	return context.WithValue(ctx, warned{}, receive)
}

// deliver hands the warnings of a response to the receiver of its request, and keeps the others for client-go.
func deliver(req *http.Request, headers []string) (rest []string) {
	receive, ok := req.Context().Value(warned{}).(func(about, text string))
	if !ok {
		return headers
	}
	parsed, _ := utilnet.ParseWarningHeaders(headers)
	for _, w := range parsed {
		if w.Text != "" {
			receive(aboutPath(req.URL.Path), w.Text)
		}
	}
	return nil
}

// aboutPath names what the path of a request is about: /api/v1/namespaces/shop/services/web/status is "services/status shop/web".
func aboutPath(path string) string {
	p := ParsePath(path)
	what, of := p.Resource, strings.Trim(p.Namespace+"/"+p.Name, "/")
	switch {
	case what == "":
		return path
	case of == "":
		return what
	case p.Subresource != "":
		what += "/" + p.Subresource
	}
	return what + " " + of
}
