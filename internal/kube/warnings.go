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
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return path
	}
	namespace := ""
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		namespace, parts = parts[1]+"/", parts[2:]
	}
	switch len(parts) {
	case 1:
		return strings.TrimSuffix(parts[0]+" "+strings.TrimSuffix(namespace, "/"), " ")
	case 2:
		return parts[0] + " " + namespace + parts[1]
	}
	return parts[0] + "/" + parts[2] + " " + namespace + parts[1]
}
