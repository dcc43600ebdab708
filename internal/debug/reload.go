package debug

import (
	"maps"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// ReloadTopic reports a reload that was rejected. Rejected are the hooks that made it fail, each with the cause; the name is empty for
// causes that no single hook has. Nothing that a hook has printed is in it.
func ReloadTopic(rejected func() map[string]string) Topic {
	return Topic{
		Reasons:  func(h *hook.Hook, _ time.Time) []Reason { return notReloaded(h.Name, rejected()) },
		Troubles: func() []Trouble { return rejectedHooks(rejected()) },
	}
}

// notReloaded shows the cause only to the hooks that it is about.
func notReloaded(hook string, rejected map[string]string) []Reason {
	const active = "its previous configuration stays active, because the last reload was rejected: "
	if len(rejected) == 0 {
		return nil
	}
	if own := rejected[hook]; own != "" {
		return []Reason{{ByReload, false, active + oneLine(own),
			fixHook}}
	}
	return []Reason{{ByReload, false, active + "shell-operator status shows the cause", ""}}
}

func rejectedHooks(rejected map[string]string) (all []Trouble) {
	for _, name := range slices.Sorted(maps.Keys(rejected)) {
		t := Trouble{Kind: InReload, Subject: "hooks", Problem: "the last reload was rejected, the previous hooks stay active: " +
			oneLine(rejected[name])}
		if name != "" {
			t.Hooks, t.Subject = []string{name}, name
		}
		all = append(all, t)
	}
	return all
}
