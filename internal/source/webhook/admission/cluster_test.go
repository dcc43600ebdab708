package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// run runs a registrar until both configurations have what can be registered. What it returns ends it.
func run(t *testing.T, r *Registrar) (stop func() error) {
	t.Helper()
	report, reconciled := r.opts.Report, make(chan hook.Kind, 10)
	r.opts.Report = func(kind hook.Kind, hooks []string, configuration string, err error) {
		if report != nil {
			report(kind, hooks, configuration, err)
		}
		if err == nil || strings.Contains(err.Error(), sharedName) {
			select {
			case reconciled <- kind:
			default: // it has been noticed
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var err error
	go func() { defer close(done); err = r.Run(ctx) }()
	stop = func() error { cancel(); <-done; return err }
	t.Cleanup(func() { _ = stop() })
	for kinds := map[hook.Kind]bool{}; len(kinds) < len(r.keepers); {
		select {
		case kind := <-reconciled:
			kinds[kind] = true
		case <-done:
			t.Fatal("Run ended")
		case <-time.After(test.Patience):
			t.Fatal("no registration")
		}
	}
	return stop
}

// live returns a configuration, or nil when there is none.
func live(t *testing.T, c *testenv.Cluster, k kind, name string) *configuration {
	t.Helper()
	text := c.Kubectl(t, "get", k.resource, name+"-hooks", "-o", "json", "--ignore-not-found")
	if text == "" {
		return nil
	}
	var out configuration
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}
