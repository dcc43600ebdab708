package app

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// The series of reviews end with the bindings and the CRDs of the hooks.
func TestReviewSeriesEnd(t *testing.T) {
	m, err := newMeter(telemetry.MetricsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stays := &hook.Hook{Name: "stays.sh", Conversions: []hook.Conversion{{Binding: hook.Binding{Name: "c"}, CRDName: "both.example.com"}},
		Validating: []hook.Admission{{Binding: hook.Binding{Name: "v.example.com"}}}}
	goes := &hook.Hook{Name: "goes.sh", Conversions: []hook.Conversion{{Binding: hook.Binding{Name: "a"}, CRDName: "both.example.com"},
		{Binding: hook.Binding{Name: "b"}, CRDName: "gone.example.com"}},
		Mutating: []hook.Admission{{Binding: hook.Binding{Name: "m.example.com"}}}}
	m.SetHooks([]*hook.Hook{stays, goes})
	m.AdmissionReviewed("stays.sh", "v.example.com", "denied", time.Millisecond)
	m.AdmissionReviewed("goes.sh", "m.example.com", "failed", time.Millisecond)
	m.ConversionReviewed("both.example.com", "converted", time.Millisecond)
	m.ConversionReviewed("gone.example.com", "refused", time.Millisecond)
	m.SetHooks([]*hook.Hook{stays})
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	for label, want := range map[string]bool{`hook="stays.sh",result="denied"} 1`: true, "goes.sh": false,
		`crd="both.example.com",result="converted"} 1`: true, "gone.example.com": false} {
		if got := strings.Contains(text.String(), label); got != want {
			t.Errorf("%s is there: %t\n%s", label, got, text.String())
		}
	}
}
