package telemetry

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/shell-operator/shell-operator/internal/test/pages"
)

const reference = "../../docs/reference/metrics.md"

// TestReference keeps the table of metrics in the documentation equal to that of the code.
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

// TestDashboardAndAlerts finds names and labels in what is deployed that no metric has.
func TestDashboardAndAlerts(t *testing.T) {
	for path, expressions := range map[string][]string{
		"../../deploy/grafana/dashboard.json": dashboardExpressions(t, "../../deploy/grafana/dashboard.json"),
		"../../deploy/prometheus/alerts.yaml": alertExpressions(t, "../../deploy/prometheus/alerts.yaml"),
	} {
		if len(expressions) == 0 {
			t.Errorf("%s has no expressions", path)
		}
		for _, expr := range expressions {
			for _, problem := range checkExpression(expr) {
				t.Errorf("%s: %s: %s", path, expr, problem)
			}
		}
	}
}

func dashboardExpressions(t *testing.T, path string) (found []string) {
	var tree any
	if err := json.Unmarshal(read(t, path), &tree); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return expressions(tree)
}

func alertExpressions(t *testing.T, path string) []string {
	var tree any
	if err := yaml.Unmarshal(read(t, path), &tree); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return expressions(tree)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// expressions are the texts under the keys that hold PromQL, wherever they are.
func expressions(tree any) (found []string) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			if text, ok := value.(string); ok && slices.Contains([]string{"expr", "definition"}, key) {
				found = append(found, text)
			}
			found = append(found, expressions(value)...)
		}
	case []any:
		for _, item := range tree {
			found = append(found, expressions(item)...)
		}
	}
	return found
}

var (
	ourMetric = regexp.MustCompile(`\b(?:shell_operator|d8_telemetry)_\w+`)
	// selector is a metric with matchers, grouping the labels of an aggregation.
	selector = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(?:by|on|without)\s*\(([^)]*)\)`)
)

// fromPrometheus are labels that Prometheus adds to all series, and the one of buckets.
var fromPrometheus = []string{"job", "namespace", "pod", "instance", "le"}

func checkExpression(expr string) (problems []string) {
	names := ourMetric.FindAllString(expr, -1)
	allLabels := slices.Clone(fromPrometheus)
	for _, name := range names {
		d := definitionOf(name)
		if d == nil {
			problems = append(problems, "no metric is called "+name)
			continue
		}
		allLabels = append(allLabels, d.labels...)
	}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		if d := definitionOf(s[1]); d != nil {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(d.labels, m[1]) && !slices.Contains(fromPrometheus, m[1]) {
					problems = append(problems, s[1]+" has no label "+m[1])
				}
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); len(names) > 0 && !slices.Contains(allLabels, label) {
				problems = append(problems, "no metric here has the label "+label)
			}
		}
	}
	if len(names) == 0 && !strings.Contains(expr, "go_") && !strings.Contains(expr, "process_") {
		problems = append(problems, "no metric of ours")
	}
	return problems
}

// definitionOf finds the metric of a name in an expression.
func definitionOf(name string) *definition {
	for i := range definitions {
		d := &definitions[i]
		full := d.fullName(DefaultPrefix)
		isPart := d.typ == histogram && slices.Contains([]string{full + "_bucket", full + "_sum", full + "_count"}, name)
		if d.typ != histogram && name == full || isPart {
			return d
		}
	}
	return nil
}
