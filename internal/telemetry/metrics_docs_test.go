package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

const reference = "../../docs/reference/metrics.md"

// TestReference keeps the table of metrics in the documentation equal to the table in the code.
func TestReference(t *testing.T) {
	pages.Part{Page: reference, Name: "metrics", Package: "./internal/telemetry"}.Check(t, metricsTable())
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	var sets []bucketSet
	for _, d := range definitions {
		typ := string(d.typ)
		if d.typ == histogram {
			typ += " " + d.buckets.name
			if !slices.ContainsFunc(sets, func(s bucketSet) bool { return s.name == d.buckets.name }) {
				sets = append(sets, d.buckets)
			}
		}
		labels := "—"
		if len(d.labels) > 0 {
			labels = "`" + strings.Join(d.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.fullName(DefaultPrefix), typ, labels, d.help)
	}
	b.WriteString("\nBuckets of histograms, in seconds:\n\n| | upper bounds |\n|---|---|\n")
	for _, s := range sets {
		fmt.Fprintf(&b, "| %s | %s |\n", s.name, strings.Trim(strings.ReplaceAll(fmt.Sprint(s.bounds), " ", ", "), "[]"))
	}
	return b.String() + "\n"
}
