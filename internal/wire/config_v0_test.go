package wire

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func TestExistingObjectsOfV0(t *testing.T) {
	for skip, want := range map[bool]hook.Initial{false: hook.InitialEvents, true: hook.InitialNone} {
		o := testOptions()
		o.SkipExistingV0 = skip
		h, _, err := ParseConfig("h", "/h", []byte("onKubernetesEvent: [{kind: Pod}]"), o)
		if err != nil || h.Kubernetes[0].Initial != want {
			t.Errorf("skip %t: %v, error %v", skip, h.Kubernetes, err)
		}
		// Hooks of version 1 configure it themselves.
		h, _, err = ParseConfig("h", "/h", []byte("{configVersion: v1, kubernetes: [{kind: Pod}]}"), o)
		if err != nil || h.Kubernetes[0].Initial != hook.InitialList {
			t.Errorf("skip %t: %v, error %v", skip, h.Kubernetes, err)
		}
	}
}
