package deploy

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAlerts runs the unit tests of the alerts with Prometheus' own libraries: each alert fires, with the labels namespace and
// job, for the operator that has the problem.
func TestAlerts(t *testing.T) {
	if out, err := exec.Command(tool(t, "promql"), "test", "prometheus/alerts_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

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
	for line := range strings.Lines(text) {
		if strings.Contains(line, " summary: ") && (!strings.Contains(line, "{{ $labels.namespace }}") ||
			!strings.Contains(line, "{{ $labels.job }}")) {
			t.Errorf("the summary does not name the operator: %s", line)
		}
	}
}

// dashboard is as much of a dashboard as the tests read.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ H, W, X, Y int }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
	}
}

// TestMetricsExist: each metric of the alerts and the dashboard is in the reference of metrics, with the labels that are selected, or is
// one of the process; all expressions parse, and the dashboard's select the operators that are chosen at its top.
func TestMetricsExist(t *testing.T) {
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for _, r := range alerts.Groups[0].Rules {
		expressions = append(expressions, r.Expr)
	}
	board := readDashboard(t)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, selector := range regexp.MustCompile(`\w+\{[^}]*\}`).FindAllString(target.Expr, -1) {
				if !strings.Contains(selector, `{namespace=~"$namespace", job=~"$job"`) {
					t.Errorf("panel %q: %s is not limited to the chosen operators", p.Title, selector)
				}
			}
			expressions = append(expressions, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	for _, v := range board.Templating.List {
		if query, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			selector, _, _ := strings.Cut(strings.TrimSuffix(query, ")"), ", "+v.Name)
			expressions = append(expressions, selector)
		}
	}
	cmd := exec.Command(tool(t, "promql"), "metrics")
	cmd.Stdin = strings.NewReader(strings.Join(expressions, "\n"))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	reference := read(t, "../docs/reference/metrics.md")
	names := strings.Fields(string(out))
	for _, name := range names {
		family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !strings.Contains(reference, "| `"+name+"` |") && !strings.Contains(reference, "| `"+family+"` | histogram") &&
			!strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "go_") {
			t.Errorf("%s is not in docs/reference/metrics.md", name)
		}
	}
	selectors := regexp.MustCompile(`(\w*shell_operator_\w+)\{([^}]*)\}`)
	for _, selector := range selectors.FindAllStringSubmatch(strings.Join(expressions, "\n"), -1) {
		family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(selector[1], "")
		row := regexp.MustCompile("\\| `(" + selector[1] + "|" + family + ")` \\| [cgh].*").FindString(reference)
		for _, m := range regexp.MustCompile(`(\w+) *(=~|!~|!=|=)`).FindAllStringSubmatch(selector[2], -1) {
			if m[1] != "namespace" && m[1] != "job" && !strings.Contains(row, "`"+m[1]+"`") {
				t.Errorf("%s has no label %s", selector[1], m[1])
			}
		}
	}
	for _, name := range []string{"admission_reviews_total", "conversion_reviews_total", "hooks_rejected", "hook_run_errors_total"} {
		if !slices.Contains(names, "shell_operator_"+name) || strings.Count(fmt.Sprint(expressions), "shell_operator_"+name) < 2 {
			t.Errorf("%s is not in both the alerts and the dashboard", name)
		}
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboard checks what Grafana shows without an error: panels with ids of their own that do not cover each other, with the
// data source that is chosen at the top.
func TestDashboard(t *testing.T) {
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] != "" {
			t.Errorf("panels %q and %q have the id %d", ids[p.ID], p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q covers %q, or is too wide", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q needs a description, the data source ${datasource} and a target", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.LegendFormat == "" {
				t.Errorf("panel %q: the target %q needs a reference of its own and a legend", p.Title, target.Expr)
			}
			refs[target.RefID] = true
		}
	}
}
