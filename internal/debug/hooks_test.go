package debug

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Each name has an address of its own, also if it looks like the escaped form of another one. A name that is not escaped is found, too.
func TestNamesThatLookEscaped(t *testing.T) {
	f := &fake{}
	for _, name := range []string{"a%2520b", "a%20b", "a b", "50%", "%41"} {
		f.hooks = append(f.hooks, &hook.Hook{Name: name})
		f.queues = append(f.queues, Queue{Name: name})
	}
	api := operate(f).api()
	for path, want := range map[string]string{
		Name("a b"): "a b", Name("a%20b"): "a%20b", Name("a%2520b"): "a%2520b", Name("50%"): "50%", Name("%41"): "%41", "%41": "%41",
	} {
		if body := ask(api, "GET", "/hook/"+path+"/why.json", nil).Body.String(); !strings.HasPrefix(body, `{"hook":"`+want+`",`) {
			t.Errorf("%s is not hook %q: %s", path, want, body)
		}
		if body := ask(api, "GET", "/queue/"+path+"/lanes.json", nil).Body.String(); !strings.HasPrefix(body, `{"queue":"`+want+`",`) {
			t.Errorf("%s is not queue %q: %s", path, want, body)
		}
	}
}

// Names of hooks that are gone are decoded once, too.
func TestEscapedNamesThatAreNotActive(t *testing.T) {
	f := &fake{hooks: []*hook.Hook{{Name: "a%20b"}}}
	f.orphans = []finalizer.Orphan{{Entry: finalizer.Entry{Finalizer: "x/y", Resource: "pods", Hook: "gone b", Binding: "p"}, Objects: 1}}
	api := operate(f).api()
	for path, want := range map[string]string{
		Name("gone b") + "/why.json":   `{"hook":"gone b","verdict":"gone",`,
		Name("gone%20b") + "/why.json": `there is no hook \"gone%20b\"`,
	} {
		if body := ask(api, "GET", "/hook/"+path, nil).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
