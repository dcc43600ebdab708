package webhook

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Callers are alike while the operator may not write a registration, which the trouble says; with a client CA they are known.
func TestForbiddenRegistration(t *testing.T) {
	var r registrations
	server := WebhookServer{}
	forbidden := server.unknown(apierrors.NewForbidden(schema.GroupResource{}, "x", nil))
	if !strings.Contains(forbidden.Error(), "all clients are alike") {
		t.Errorf("got %v", forbidden)
	}
	r.report(Unregistered{Kind: hook.OnValidating, Hooks: []string{"a"}, Subject: "v", Err: forbidden})
	r.report(Unregistered{Kind: hook.OnConversion, Hooks: []string{"a"}, Subject: "c", Err: server.unknown(errors.New("other"))})
	if !r.forbidden(hook.OnMutating, hook.OnValidating) || r.forbidden(hook.OnConversion) {
		t.Error("only validating webhooks cannot be registered")
	}
	r.report(Unregistered{Kind: hook.OnValidating, Hooks: []string{"a"}, Subject: "v", Err: nil})
	if r.forbidden(hook.OnMutating, hook.OnValidating) {
		t.Error("they are registered again")
	}
	server.ClientCA = []string{"ca.crt"}
	if got := server.unknown(forbidden); !errors.Is(got, forbidden) || strings.Count(got.Error(), "alike") != 1 {
		t.Errorf("with a client CA: %v", got)
	}
}
