// Package load asks hooks for their configurations, in an operator and without one.
//
// Callers may rely on this:
//   - Hooks are asked everywhere in the same way, in the environment that their runs have.
//   - What comes out can be run: filters compile, crontabs parse.
package load

import (
	"log/slog"
	"time"

	"github.com/shell-operator/shell-operator/internal/discover"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Options of Discovery. Mounted may be false, everything else is required.
type Options struct {
	// Dir is the absolute path of the hooks directory.
	Dir string
	// Mounted is that of discover.Options.
	Mounted bool
	// Env is the environment of config calls, Timeout ends one.
	Env      []string
	Timeout  time.Duration
	Executor *process.Executor
	Filters  *jq.Compiler
	Log      *slog.Logger
}

// Discovery is what discover needs to ask hooks.
func Discovery(o Options) discover.Options {
	return discover.Options{
		Dir: o.Dir, Mounted: o.Mounted, Log: o.Log,
		Caller: caller{o.Executor, o.Env, o.Timeout},
		Config: wire.ConfigOptions{JQ: o.Filters, CheckCrontab: checkCrontab},
	}
}

func checkCrontab(text string) error {
	_, err := schedule.Parse(text)
	return err
}
