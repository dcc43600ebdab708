package deploy

import (
	"regexp"
	"strings"
	"testing"
)

// TestAlertsKeepLabels: an aggregation that drops namespace and job would add up two operators, and cannot be routed by team.
func TestAlertsKeepLabels(t *testing.T) {
	text := read(t, "prometheus/alerts.yaml")
	aggregations := regexp.MustCompile(`\b(?:sum|group|max|min|avg|count)\b(?: by \(([^)]*)\))? ?\(`).FindAllStringSubmatch(text, -1)
	if len(aggregations) < 10 {
		t.Fatalf("only %d aggregations found", len(aggregations))
	}
	for _, a := range aggregations {
		if !strings.HasPrefix(a[1], "namespace, job") {
			t.Errorf("%q does not begin with namespace, job", a[0])
		}
	}
	for _, metric := range []string{`admission_reviews_total{result="failed"}`, `conversion_reviews_total{result="failed"}`, `hooks_reloads_total{result="error"}`} {
		if !strings.Contains(text, metric) {
			t.Errorf("no alert for %s", metric)
		}
	}
}
