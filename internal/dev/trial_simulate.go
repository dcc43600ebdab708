package dev

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
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
	var cl *kube.Cluster
	if t.Cluster {
		if cl, err = kube.Connect(o.Cluster, private); err != nil {
			return err
		}
	}
	own := filepath.Join(private, "run")
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	s, err := simulate(ctx, answer.Hook, *t.Input, simulationOptions{
		filters: discover.Filters, env: o.Env, timeout: o.HookTimeout, workers: o.Workers, readyTimeout: o.ConfigTimeout, dir: own,
		started: t.Started,
		cluster: cl, installation: o.Installation, changes: o.Changes, diff: t.Diff,
		line: func(stream, text string) {
			r.Output = append(r.Output, TrialLine{stream, text})
			if t.Line != nil {
				t.Line(stream, text)
			}
		},
	})
	if s != nil {
		r.Notes, r.Diffs = slices.Concat(r.Notes, s.result.warnings, s.result.notes), s.result.diffs
	}
	if err != nil {
		return errors.Join(err, removeAll(own))
	}
	result := &s.result
	r.Runs = result.runs
	if result.runs == 0 {
		r.Notes = append(append(r.Notes, "no event caused a run"), result.excluded...)
	}
	r.Seconds, r.MaxRSSBytes = result.usage.Wall.Seconds(), result.usage.MaxRSS
	r.CPUSeconds = (result.usage.User + result.usage.System).Seconds()
	for _, p := range slices.Concat(result.patches, result.despite) {
		o := trialOperation(&p)
		if t.Diff { // the differences are masked, so nothing else has values of Secrets
			o = o.bare()
		}
		r.Operations = append(r.Operations, o)
	}
	if t.Diff && len(r.Diffs) == 0 && len(r.Operations) > 0 && result.failed == nil && result.err == nil {
		r.Notes = append(r.Notes, "the operations change nothing")
	}
	for _, m := range result.metrics {
		r.Metrics = append(r.Metrics, wire.FormatMetric(m))
	}
	r.Admission, r.Conversion, r.HTTP = result.admission, result.conversion, result.http
	err = errors.Join(result.failed, result.err, removeAll(own))
	r.compare(s.recording, (&run.Report{Err: result.err, Usage: result.usage}).Exit(), o.Env)
	return err
}
