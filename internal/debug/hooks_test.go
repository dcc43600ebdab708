package debug

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Names are decoded once: each has a path of its own, also if it looks like the escaped form of another one.
func TestNamesThatLookEscaped(t *testing.T) {
	f := &fake{}
	for _, name := range []string{"a%2520b", "a%20b", "a b", "50%"} {
		f.hooks = append(f.hooks, &hook.Hook{Name: name})
		f.queues = append(f.queues, Queue{Name: name})
	}
	api := operate(f).api()
	for _, h := range f.hooks {
		for path, want := range map[string]string{"/hook/*/why.json": "hook", "/queue/*/lanes.json": "queue"} {
			path = strings.Replace(path, "*", Name(h.Name), 1)
			if body := ask(api, "GET", path, nil).Body.String(); !strings.HasPrefix(body, `{"`+want+`":"`+h.Name+`",`) {
				t.Errorf("%s is not %q: %s", path, h.Name, body)
			}
		}
	}
}
