package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Sets without a hook are logged once, however often the operator searches for them, and again when they become more.
func TestLostSetsAreLoggedOnce(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	effects, err := apply.New(apply.Options{Instance: namespace, Namespace: namespace, Client: cluster.Config(t), Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	op := &operator{log: logger, effects: effects, orphanSearch: make(chan struct{}, 1)}
	sync := func(hook string) {
		t.Helper()
		set := &effect.ObjectSet{Name: "web",
			Objects: []effect.Member{{APIVersion: "v1", Kind: "ConfigMap", Name: hook,
				Object: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "` + hook + `"}}`)}}}
		if err := effects.Sets().Sync(t.Context(), logger, hook, set, func(string, ...kube.Rule) {}); err != nil {
			t.Fatal(err)
		}
	}
	warnings := func() (n int) {
		t.Helper()
		if err := op.findLostSets(t.Context(), []*hook.Hook{{Name: "stays"}}); err != nil {
			t.Fatal(err)
		}
		n = strings.Count(log.String(), "Sets of objects have no hook any more")
		log.Reset()
		return n
	}
	sync("stays")
	sync("one")
	for i, want := range []int{1, 0, 0} {
		if got := warnings(); got != want {
			t.Errorf("search %d logs %d warnings, not %d", i, got, want)
		}
	}
	sync("two")
	if got := warnings(); got != 1 {
		t.Errorf("a further hook is logged by %d warnings", got)
	}
}
