package apply

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Requests are the metrics and operations of a run.
type Requests struct {
	Metrics  []effect.Metric
	Patches  []effect.Patch
	Warnings []wire.Warning
	Answers  Answers
}

// Check parses all files of a run. An error means that nothing of it may be applied.
func Check(h *hook.Hook, out run.Outputs, filters *jq.Compiler) (w Requests, err error) {
	if out.Metrics != nil {
		w.Metrics, w.Warnings, err = wire.ParseMetrics(out.Metrics)
	}
	if err == nil && (out.Admission != nil || out.Conversion != nil || out.HTTP != nil) {
		w.Answers, err = parseAnswers(h, out)
	}
	if err == nil && (out.Patch != nil || out.Large != nil) {
		w.Patches, err = operations(out, filters)
	}
	if err != nil {
		err = fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	return w, err
}

// operations reads the operations that a run has written.
func operations(out run.Outputs, filters *jq.Compiler) ([]effect.Patch, error) {
	if out.Large != nil {
		return wire.ReadPatches(out.Large, filters)
	}
	return wire.ParsePatches(out.Patch, filters)
}
