package admission

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Without the permission to read, webhooks that this process has registered are reported, and others are not looked for.
func TestLeftWithoutPermission(t *testing.T) {
	server := &contested{}
	client := server.client(t)
	forbids := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	}
	forbidden, err := kube.NewClient(&rest.Config{Host: "https://offline", QPS: -1, Transport: roundTrip(forbids)})
	if err != nil {
		t.Fatal(err)
	}
	o := by(client, "example", quietFull())
	o.Left = &sync.Map{}
	first, _ := newRegistrar(t, o)
	if err := first.keepers[0].reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Client, o.Hooks = forbidden, nil
	second, _ := newRegistrar(t, o)
	if err := second.keepers[0].reconcile(t.Context()); err == nil || errors.Is(err, keep.ErrDone) {
		t.Errorf("of registered webhooks: %v", err)
	}
	if err := second.keepers[1].reconcile(t.Context()); !errors.Is(err, keep.ErrDone) {
		t.Errorf("of others: %v", err)
	}
}
