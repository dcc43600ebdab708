package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/shell-operator/shell-operator/internal/dev/simulate"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// simulate runs the hook on events of a simulated cluster, with the environment of the caller.
func (r *TrialReport) simulate(ctx context.Context, o Options, t TrialOptions, dir string, file hookset.File, private string) error {
	for name, value := range t.Input.Env {
		o.Env = append(o.Env, name+"="+value)
	}
	discover := discovery(o)
	answer, err := hookset.Ask(ctx, discover, dir, file)
	if err != nil {
		return withHint(err, dir, file)
	}
	own := filepath.Join(private, "run")
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	result, err := simulate.Run(ctx, answer.Hook, *t.Input, simulate.Options{
		Filters: discover.Filters, Env: o.Env, Timeout: o.HookTimeout, Workers: o.Workers, ReadyTimeout: o.ConfigTimeout, Dir: own,
		Started: t.Started, Diff: t.Diff, Shard: o.Shard,
		Line: func(stream, text string) {
			r.Output = append(r.Output, TrialLine{stream, text})
			if t.Line != nil {
				t.Line(stream, text)
			}
		},
	})
	if result != nil {
		r.Notes, r.Diffs = slices.Concat(r.Notes, result.Warnings, result.Notes), result.Diffs
	}
	if err != nil {
		return errors.Join(err, removeAll(own))
	}
	r.Runs = result.Runs
	if result.Runs == 0 {
		r.Notes = append(append(r.Notes, "no event caused a run"), result.Excluded...)
	}
	r.Seconds, r.MaxRSSBytes = result.Usage.Wall.Seconds(), result.Usage.MaxRSS
	r.CPUSeconds = (result.Usage.User + result.Usage.System).Seconds()
	for _, p := range slices.Concat(result.Patches, result.Despite) {
		o := trialOperation(&p)
		if t.Diff { // the differences are masked, so nothing else has values of Secrets
			o = o.bare()
		}
		r.Operations = append(r.Operations, o)
	}
	if t.Diff && len(r.Diffs) == 0 && len(r.Operations) > 0 && result.Failed == nil && result.Err == nil {
		r.Notes = append(r.Notes, "the operations change nothing")
	}
	for _, m := range result.Metrics {
		r.Metrics = append(r.Metrics, wire.FormatMetric(m))
	}
	r.Admission, r.Conversion, r.HTTP = result.Admission, result.Conversion, result.HTTP
	err = errors.Join(result.Failed, result.Err, removeAll(own))
	r.compare(result.Recording, (&run.Report{Err: result.Err, Usage: result.Usage}).Exit(), o.Env)
	return err
}
