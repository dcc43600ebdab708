package admission

import (
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// An operator without webhooks removes the webhooks of another one that shares its Service and its configuration name once, and not again
// immediately when they return.
func TestRestoredLeftovers(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	name := c.Namespace(t)
	cleanup(t, c, name)
	other, _ := newRegistrar(t, inCluster(t, c, name, quietFull()))
	run(t, other)
	bare, log := newRegistrar(t, inCluster(t, c, name, nil))
	running(t, bare)
	log.Until(t, "Another client changes the webhook configuration", 2)
	time.Sleep(time.Second)
	for _, k := range bare.keepers {
		if live(t, c, k.kind, name) == nil {
			t.Errorf("%s is removed again", k.Subject())
		}
	}
	if n := strings.Count(log.String(), "is removed"); n != 2 {
		t.Errorf("removed %d times:\n%s", n, log)
	}
}
