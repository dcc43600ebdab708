package http

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// parseHooks makes hooks of lines such as "a.sh GET /nodes/{name}". Bindings are called after their lines.
func parseHooks(t testing.TB, text string) []*hook.Hook {
	t.Helper()
	var hooks []*hook.Hook
	byName := map[string]*hook.Hook{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("%q is not a hook, a method and a path", line)
		}
		h := byName[words[0]]
		if h == nil {
			h = &hook.Hook{Name: words[0]}
			byName[h.Name], hooks = h, append(hooks, h)
		}
		b := hook.HTTP{Binding: hook.Binding{Name: strings.Join(words[1:], " ")}, Method: words[1], Path: words[2]}
		if words[2] != "/" {
			for s := range strings.SplitSeq(words[2][1:], "/") {
				name := strings.Trim(s, "{}")
				b.Segments = append(b.Segments, hook.Segment{Text: name, Variable: name != s})
			}
		}
		h.HTTP = append(h.HTTP, b)
	}
	return hooks
}

type runnerFunc func(ctx context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error)

func (f runnerFunc) Answer(ctx context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error) {
	return f(ctx, h, index, r)
}

// echoes responds with the binding and the context of the hook.
var echoes = runnerFunc(func(_ context.Context, h *hook.Hook, index int, r *event.Request) (effect.HTTPAnswer, error) {
	text := fmt.Sprintf("%s: %s %s %v %v %v %q", h.HTTP[index].Name, r.Method, r.Path, r.PathValues, r.Query, r.Headers, r.Body)
	if r.User != nil {
		text += " " + r.User.Name
	}
	return effect.HTTPAnswer{Status: http.StatusOK, Headers: map[string][]string{"Content-Type": {"text/plain"}}, Body: []byte(text)}, nil
})

func newHandler(t testing.TB, o Options, hooks string) (*Handler, *test.Text) {
	t.Helper()
	log := &test.Text{}
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Hooks = parseHooks(t, hooks)
	h := New(o)
	return h, log
}
