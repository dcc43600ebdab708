package debug

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
)

// TestMetricsOfTopics scrapes what topics measure. A text that is no name of a hook is no label.
func TestMetricsOfTopics(t *testing.T) {
	f := busyOperator()
	f.lost = append(f.lost, applyset.Set{Hook: "x; touch y"}, applyset.Set{Hook: "a\nb"})
	registry := prometheus.NewPedanticRegistry()
	for _, topic := range *operate(f).api().topics.Load() {
		registry.MustRegister(topic.Metrics...)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`parked_tasks{binding="cms",hook="big.py",queue="orders"} 2`,
		`orphaned_finalizer_objects{finalizer="example.com/gone",resource="databases"} 3`,
		`orphaned_sets{hook="gone.sh"} 2`, `orphaned_sets{hook="invalid name"} 2`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing in\n%s", want, text.String())
		}
	}
}
