package app

import (
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// reviewMeter counts reviews, and remembers which bindings give no verdict.
type reviewMeter struct {
	*telemetry.Metrics
	op *operator
}

func (m reviewMeter) AdmissionReviewed(hook, binding, result string, took time.Duration) {
	m.op.reviews.Add(debug.Reviewed{Hook: hook, Binding: binding}, result == admission.ResultFailed)
	m.Metrics.AdmissionReviewed(hook, binding, result, took)
}

func (m reviewMeter) ConversionReviewed(crd, result string, took time.Duration) {
	m.op.reviews.Add(debug.Reviewed{Binding: crd}, result == conversion.ResultFailed)
	m.Metrics.ConversionReviewed(crd, result, took)
}
