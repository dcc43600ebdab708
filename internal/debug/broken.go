package debug

import (
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
)

// fixHook is the next step for a hook whose configuration could not be loaded.
const fixHook = "fix the hook: shell-operator lint shows the place, the log has the whole error"

// BrokenTopic reports hooks whose configuration could not be loaded. Nothing that a hook has printed is in it.
func BrokenTopic(hooks *Hooks) Topic {
	return Topic{
		Reasons: func(h *hook.Hook, now time.Time) []Reason {
			for _, b := range hooks.broken(h.Name) {
				if b.Name == h.Name {
					return []Reason{{ByConfig, false, brokenText(&b) + callsAgain(&b, now), fixHook}}
				}
			}
			return nil
		},
		Left: func(name string) []Reason {
			if broken := hooks.broken(name); len(broken) == 1 {
				return []Reason{{ByConfig, true, brokenText(&broken[0]) + callsAgain(&broken[0], time.Now()), fixHook}}
			}
			return nil
		},
		Troubles: func() (all []Trouble) {
			for _, b := range hooks.Broken() {
				all = append(all, Trouble{Kind: InConfig, Hooks: []string{b.Name}, Subject: b.Name, Problem: brokenText(&b), Hint: fixHook})
			}
			return all
		},
	}
}

func brokenText(b *lifecycle.Broken) string {
	if b.Active {
		return "its previous version stays active: " + oneLine(b.Problem)
	}
	return "it is left out: " + oneLine(b.Problem)
}

// callsAgain is when the hook is called with --config again.
func callsAgain(b *lifecycle.Broken, now time.Time) string {
	if left := b.Again.Sub(now).Round(time.Second); left > 0 {
		return fmt.Sprintf("; it is called again with --config in %s", history.Duration(left))
	}
	return ""
}
