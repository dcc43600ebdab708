package apply

import (
	"errors"
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
}

// Check parses all files of a run. An error means that nothing of it may be applied.
func Check(h *hook.Hook, out run.Outputs, filters *jq.Compiler) (w Requests, err error) {
	if w.Metrics, w.Warnings, err = wire.ParseMetrics(out.Metrics); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	if err := checkAnswers(h, out); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	if w.Patches, err = wire.ParsePatches(out.Patch, filters); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	return w, nil
}

// checkAnswers returns an error for an invalid answer, also if the run is not for a request.
func checkAnswers(h *hook.Hook, out run.Outputs) error {
	var errs []error
	if out.Admission != nil {
		if _, err := wire.ParseAdmission(out.Admission); err != nil {
			kind := "validating"
			if len(h.Validating) == 0 && len(h.Mutating) > 0 {
				kind = "mutating"
			}
			errs = append(errs, fmt.Errorf("got bad %s response: %w", kind, err))
		}
	}
	if out.Conversion != nil {
		if _, err := wire.ParseConversion(out.Conversion); err != nil {
			errs = append(errs, fmt.Errorf("got bad conversion response: %w", err))
		}
	}
	if out.HTTP != nil {
		if _, err := wire.ParseHTTP(out.HTTP); err != nil {
			errs = append(errs, fmt.Errorf("got bad http response: %w", err))
		}
	}
	return errors.Join(errs...)
}
