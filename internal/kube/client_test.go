package kube_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Errors contain the API server's message.
func TestSend(t *testing.T) {
	c := testenv.Shared(t)
	client := testenv.Client(t, testenv.Config(t, c.UserKubeconfig))
	_, err := kube.Send(t.Context(), client.Get().AbsPath("/api/v1/namespaces/default/secrets/treasure"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice" cannot get resource "secrets"`) {
		t.Errorf("a forbidden request: %v", err)
	}
	text, err := kube.Send(t.Context(), client.Get().AbsPath("/version"))
	if err != nil || !strings.Contains(string(text), `"gitVersion"`) {
		t.Errorf("a request that may be made: %q, %v", text, err)
	}
}
