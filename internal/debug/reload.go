package debug

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// fixHook is the next step for a hook whose configuration could not be loaded.
const fixHook = "fix the hook: shell-operator lint shows the place, the log has the whole error"

// ReloadTopic reports, for as long as it is true, that the hooks on the disk would not start: the last reload was rejected. Rejected are
// the hooks that made it fail, each with the cause; the name is empty for causes that no single hook has. Nothing that a hook has printed
// is in it.
func ReloadTopic(rejected func() map[string]string, names telemetry.Names) Topic {
	return Topic{
		Notes:    func(h *hook.Hook, _ time.Time) []Reason { return notReloaded(h.Name, rejected()) },
		Troubles: func() []Trouble { return rejectedHooks(rejected()) },
		Metrics: []prometheus.Collector{names.Gauge("hooks_rejected", func(set telemetry.Set) {
			set(min(1, len(rejected())))
		})},
	}
}

// notReloaded shows the cause only to the hooks that it is about.
func notReloaded(hook string, rejected map[string]string) []Reason {
	const active = "its previous configuration stays active, because the last reload was rejected: "
	if len(rejected) == 0 {
		return nil
	}
	if own := rejected[hook]; own != "" {
		return []Reason{{InReload, false, active + OneLine(own),
			fixHook}}
	}
	return []Reason{{InReload, false, active + "shell-operator status shows the cause", ""}}
}

func rejectedHooks(rejected map[string]string) (all []Trouble) {
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		t := Trouble{Kind: InReload, Subject: "hooks",
			Hint:    "fix it before the next restart, which would fail: shell-operator lint shows the place",
			Problem: "the last reload was rejected, the previous hooks stay active: " + OneLine(rejected[name])}
		if name != "" {
			t.Hooks, t.Subject = []string{name}, name
		}
		all = append(all, t)
	}
	return all
}
