// Program promql checks what is delivered for Prometheus, with its own libraries:
//
//	promql test TESTS     runs unit tests of alerts, in the format of promtool test rules; the rule files are checked first
//	promql metrics        parses the expressions in its input, one in a line, and prints the names of their metrics
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "promql: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "test":
		return test(args[1])
	case len(args) == 1 && args[0] == "metrics":
		return metrics(stdin, stdout)
	}
	return errors.New("which command? promql test FILE or promql metrics")
}

func metrics(in io.Reader, out io.Writer) error {
	names := map[string]bool{}
	var errs []error
	for lines := bufio.NewScanner(in); lines.Scan(); {
		expr, err := parser.ParseExpr(lines.Text())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", lines.Text(), err))
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				names[s.Name] = true
			}
			return nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintln(out, name)
	}
	return errors.Join(errs...)
}

// testFile are unit tests. Only what is used here is read; all else is an error.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testGroup    `yaml:"tests"`
}

type testGroup struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTest []struct {
		EvalTime  model.Duration `yaml:"eval_time"`
		Alertname string         `yaml:"alertname"`
		ExpAlerts []struct {
			Labels      map[string]string `yaml:"exp_labels"`
			Annotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

func test(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file testFile
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	seen := map[string]bool{}
	var errs, untested []error
	for i := range file.RuleFiles {
		file.RuleFiles[i] = filepath.Join(filepath.Dir(path), file.RuleFiles[i])
		groups, problems := rulefmt.ParseFile(file.RuleFiles[i], false, model.UTF8Validation)
		if len(problems) > 0 {
			return errors.Join(problems...)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				seen[r.Alert] = false
			}
		}
	}
	for _, t := range file.Tests {
		for _, a := range t.AlertRuleTest {
			seen[a.Alertname] = seen[a.Alertname] || len(a.ExpAlerts) > 0
		}
		if err := t.run(file.RuleFiles, time.Duration(file.EvaluationInterval)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.Name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if !seen[name] {
			untested = append(untested, fmt.Errorf("no test in which %s fires", name))
		}
	}
	return errors.Join(append(errs, untested...)...)
}

// run evaluates the rules at every interval up to the last time of the tests, as a server does.
func (g *testGroup) run(files []string, interval time.Duration) error {
	var input strings.Builder
	fmt.Fprintf(&input, "load %s\n", g.Interval)
	for _, s := range g.InputSeries {
		fmt.Fprintf(&input, "  %s %s\n", s.Series, s.Values)
	}
	start := time.Unix(0, 0).UTC()
	suite, err := promqltest.NewLazyLoader(input.String(), promqltest.LazyLoaderOpts{})
	if err != nil {
		return err
	}
	defer suite.Close()
	suite.SubqueryInterval = interval
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), Appendable: suite.Storage(), Queryable: suite.Storage(),
		Context: context.Background(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
	})
	groups, problems := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, files...)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	var last time.Duration
	for _, t := range g.AlertRuleTest {
		last = max(last, time.Duration(t.EvalTime))
	}
	var errs []error
	for at := time.Duration(0); at <= last; at += interval {
		now := start.Add(at)
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				errs = append(errs, err)
			}
		})
		for _, group := range groups {
			group.Eval(context.Background(), now)
			for _, r := range group.Rules() {
				if r.LastError() != nil {
					errs = append(errs, fmt.Errorf("%s: %w", r.Name(), r.LastError()))
				}
			}
		}
		for _, t := range g.AlertRuleTest {
			if time.Duration(t.EvalTime) >= at && time.Duration(t.EvalTime) < at+interval {
				var want []string
				for _, a := range t.ExpAlerts {
					want = append(want, alertText(a.Labels, a.Annotations))
				}
				slices.Sort(want)
				if got := firing(groups, t.Alertname); !slices.Equal(got, want) {
					errs = append(errs, fmt.Errorf("%s at %s:\n  got  %s\n  want %s", t.Alertname, t.EvalTime, strings.Join(got, "\n       "),
						strings.Join(want, "\n       ")))
				}
			}
		}
		if len(errs) > 0 {
			break
		}
	}
	return errors.Join(errs...)
}

// firing are the alerts of a rule that fire.
func firing(groups map[string]*rules.Group, name string) (all []string) {
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			if r.Name() != name {
				continue
			}
			r.ForEachActiveAlert(func(a *rules.Alert) {
				if a.State == rules.StateFiring {
					own := a.Labels.Map()
					delete(own, model.AlertNameLabel)
					all = append(all, alertText(own, a.Annotations.Map()))
				}
			})
		}
	}
	slices.Sort(all)
	return all
}

// alertText is an alert in one line, in the form of the tests.
func alertText(own, annotations map[string]string) string {
	text := func(m map[string]string) string {
		var all []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			all = append(all, fmt.Sprintf("%s: %q", k, m[k]))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return text(own) + " " + text(annotations)
}
