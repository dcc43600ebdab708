package workbench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/recording"
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
		filters: discover.Filters, env: o.Env, timeout: o.HookTimeout, dir: own, started: t.Started,
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
		r.Metrics = append(r.Metrics, recording.MetricOf(m))
	}
	err = errors.Join(result.failed, result.err, r.answers(result), removeAll(own))
	r.compare(s.recording, (&run.Report{Err: result.err, Usage: result.usage}).Exit(), o.Env)
	return err
}

// answers takes over the responses of a simulation.
func (r *TrialReport) answers(s *simulated) error {
	copyTo := func(tree map[string]any, into any) error {
		text, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	}
	if s.admission != nil {
		r.Admission = &TrialAdmission{}
		if err := copyTo(s.admission, r.Admission); err != nil {
			return err
		}
		if text, err := json.Marshal(s.admission["patch"]); err == nil && s.admission["patch"] != nil {
			r.Admission.Patch = json.RawMessage(text)
		}
	}
	if s.conversion != nil {
		r.Conversion = &TrialConversion{}
		if failure, ok := s.conversion["failure"].(string); ok {
			r.Conversion.Failure = failure
		} else if err := copyTo(map[string]any{"convertedObjects": s.conversion["objects"]}, r.Conversion); err != nil {
			return err
		}
	}
	if s.http != nil {
		status, _ := s.http["status"].(int64)
		body, _ := s.http["body"].(string)
		r.HTTP = &TrialHTTP{Status: int(status), Headers: map[string][]string{}, Body: body}
		headers, _ := s.http["headers"].(map[string]any)
		for name, value := range headers {
			text, _ := value.(string)
			r.HTTP.Headers[name] = []string{text}
		}
	}
	return nil
}
