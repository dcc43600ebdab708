package kube

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestAboutPath(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop/services/web":                  "services shop/web",
		"/api/v1/namespaces/shop/services/web/status":           "services/status shop/web",
		"/api/v1/namespaces/shop/services":                      "services shop",
		"/api/v1/namespaces/shop":                               "namespaces shop",
		"/api/v1/namespaces/shop/status":                        "namespaces/status shop",
		"/api/v1/nodes":                                         "nodes",
		"/apis/apps/v1/namespaces/shop/deployments/web":         "deployments shop/web",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/admin": "clusterroles admin",
		"/version": "/version",
	} {
		if got := aboutPath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestWarningsReachTheirReceiver: with a receiver they are redacted and do not reach client-go, without one they do.
func TestWarningsReachTheirReceiver(t *testing.T) {
	var logged warnings
	client, err := NewClient(&rest.Config{Host: "https://cluster", WarningHandler: &logged,
		Transport: roundTrip(func(req *http.Request) *http.Response {
			return &http.Response{StatusCode: 200, Request: req, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{
				"Content-Type": {"application/json"}, "Warning": {`299 - "unknown field \"spec.selectr\""`, `299 - "second"`},
			}}
		})})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ctx := WithWarnings(context.Background(), func(about, text string) { got = append(got, about+": "+text) })
	if _, err := Send(ctx, client.Post().AbsPath("/api/v1/namespaces/shop/services")); err != nil {
		t.Fatal(err)
	}
	if want := []string{`services shop: unknown field "spec.selectr"`, "services shop: second"}; !slices.Equal(got, want) ||
		len(logged.texts) > 0 {
		t.Errorf("received %q, logged %q", got, logged.texts)
	}
	if _, err := Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces/shop/services")); err != nil || len(logged.texts) != 2 ||
		len(got) != 2 {
		t.Errorf("without a receiver: logged %q, error %v", logged.texts, err)
	}
}
