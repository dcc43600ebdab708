package telemetry

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// transport measures the requests of one client.
type transport struct {
	metrics   *Metrics
	component string
	next      http.RoundTripper
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	started := time.Now()
	resp, err := t.next.RoundTrip(req)
	took := time.Since(started)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	template := urlTemplate(req.URL)
	t.metrics.add("kubernetes_client_request_result_total", 1, t.component, code, req.Method, req.URL.Host)
	t.metrics.observe("kubernetes_client_request_latency_seconds", took, t.component, req.Method, template)
	t.metrics.observe("kubernetes_client_rate_limiter_latency_seconds", took, req.Method, template)
	return resp, err
}

// WrappedRoundTripper is for client-go, which closes idle connections by it.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// urlTemplate is the URL of a request without what differs from object to object, so that there are few of them.
func urlTemplate(u *url.URL) string {
	t := u.Scheme + "://" + u.Host + pathTemplate(u.Path)
	for i, key := range slices.Sorted(maps.Keys(u.Query())) {
		t += string("?&"[min(i, 1)]) + key + "={value}"
	}
	return t
}

// pathTemplate replaces names in the path of a resource, which is
//
//	[/base]/api/v1 or [/base]/apis/GROUP/VERSION, then [/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE[/…]]]
//
// What comes behind a subresource is left out, and other paths stay as they are.
func pathTemplate(path string) string {
	parts := strings.Split(path, "/")
	at := slices.IndexFunc(parts, func(p string) bool { return p == "api" || p == "apis" })
	if at < 0 {
		return path
	}
	at += map[string]int{"api": 2, "apis": 3}[parts[at]]
	if len(parts) > at+2 && parts[at] == "namespaces" && !ofNamespaces[parts[at+2]] {
		parts[at+1] = "{namespace}"
		at += 2
	}
	if len(parts) > at+1 {
		parts[at+1] = "{name}"
	}
	return strings.Join(parts[:min(len(parts), at+3)], "/")
}

// ofNamespaces are the subresources of namespaces: their paths look like paths of resources in a namespace.
var ofNamespaces = map[string]bool{"status": true, "finalize": true}
