package debug

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// ReloadTopic reports, for as long as it is true, that the hooks on the disk would not start: the last reload was rejected. Rejected are
// the hooks that made it fail, each with the cause; the name is empty for causes that no single hook has.
func ReloadTopic(rejected func() map[string]hookset.Rejection, names telemetry.Names) Topic {
	return Topic{
		Troubles: func() []Trouble { return rejectedHooks(rejected()) },
		Metrics: []prometheus.Collector{names.Gauge("hooks_rejected", func(set telemetry.Set) {
			set(min(1, len(rejected())))
		})},
	}
}

func rejectedHooks(rejected map[string]hookset.Rejection) (all []Trouble) {
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		t := Trouble{Kind: InReload, part: true, Subject: "hooks",
			Hint:    "fix it before the next restart, which would fail: shell-operator lint shows the place",
			Problem: "the last reload was rejected, the previous hooks stay active: " + OneLine(rejected[name].Text), cause: rejected[name].Printed}
		if name != "" {
			t.Hooks, t.Subject = []string{name}, name
		}
		all = append(all, t)
	}
	return all
}
