package admission

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// runnerFunc is a hook that is a function.
type runnerFunc func(ctx context.Context, h *hook.Hook, typ event.Type, index int, review []byte) (*effect.AdmissionAnswer, error)

func (f runnerFunc) Admit(ctx context.Context, r Review) (*effect.AdmissionAnswer, error) {
	answer, err := f(ctx, r.Hook, r.Type, r.Index, r.Body)
	_, err = r.Judge(answer, err)
	return answer, err
}

// acts returns a hook that does what a line says: "exits 1", "hangs", "writes nothing"; anything else is what
// it writes into its answer file.
func acts(line string) runnerFunc {
	return func(ctx context.Context, h *hook.Hook, _ event.Type, _ int, _ []byte) (*effect.AdmissionAnswer, error) {
		switch line = strings.TrimSpace(line); line {
		case "exits 1":
			return nil, errors.New("exit status 1: password=secret")
		case "hangs":
			<-ctx.Done()
			return nil, ctx.Err()
		case "writes nothing":
			return nil, nil
		}
		answer, err := wire.ParseAdmission([]byte(line))
		return &answer, err
	}
}

// logText collects what is logged at info and above, without times.
type logText struct{ test.Text }

func (l *logText) logger(tb testing.TB) *slog.Logger {
	var w io.Writer = l
	if testing.Verbose() {
		w = io.MultiWriter(l, tb.Output())
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.Attr{}
		case "elapsed":
			return slog.String(a.Key, "…")
		}
		return a
	}}))
}
