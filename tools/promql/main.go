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
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
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
	var rules []rulefmt.Rule
	for i := range file.RuleFiles {
		file.RuleFiles[i] = filepath.Join(filepath.Dir(path), file.RuleFiles[i])
		groups, problems := rulefmt.ParseFile(file.RuleFiles[i], false, model.UTF8Validation)
		if len(problems) > 0 {
			return errors.Join(problems...)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if r.Record != "" || r.KeepFiringFor != 0 {
					return fmt.Errorf("%s: record and keep_firing_for are not known here", path)
				}
				seen[r.Alert] = false
				rules = append(rules, r)
			}
		}
	}
	for _, t := range file.Tests {
		for _, a := range t.AlertRuleTest {
			seen[a.Alertname] = seen[a.Alertname] || len(a.ExpAlerts) > 0
		}
		if err := t.run(rules, time.Duration(file.EvaluationInterval)); err != nil {
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
func (g *testGroup) run(rules []rulefmt.Rule, interval time.Duration) error {
	var all series
	for _, s := range g.InputSeries {
		if err := all.add(s.Series+" "+s.Values, time.Duration(g.Interval)); err != nil {
			return err
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return interval.Milliseconds() }})
	defer engine.Close()
	var last time.Duration
	for _, t := range g.AlertRuleTest {
		last = max(last, time.Duration(t.EvalTime))
	}
	active := make([]map[string]time.Duration, len(rules)) // since when, by labels
	for at := time.Duration(0); at <= last; at += interval {
		firing := map[string][]string{}
		for i, rule := range rules {
			now := map[string]time.Duration{}
			err := all.evaluate(engine, rule, at, func(own, annotations map[string]string) {
				id := alertText(own, nil)
				if now[id] = at; active[i] != nil {
					if since, was := active[i][id]; was {
						now[id] = since
					}
				}
				if at-now[id] >= time.Duration(rule.For) {
					firing[rule.Alert] = append(firing[rule.Alert], alertText(own, annotations))
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", rule.Alert, err)
			}
			active[i] = now
		}
		for _, t := range g.AlertRuleTest {
			if time.Duration(t.EvalTime) < at || time.Duration(t.EvalTime) >= at+interval {
				continue
			}
			var want []string
			for _, a := range t.ExpAlerts {
				want = append(want, alertText(a.Labels, a.Annotations))
			}
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(firing[t.Alertname])); !slices.Equal(got, want) {
				return fmt.Errorf("%s at %s:\n  got  %s\n  want %s", t.Alertname, t.EvalTime, strings.Join(got, "\n       "),
					strings.Join(want, "\n       "))
			}
		}
	}
	return nil
}

// series are what a server has scraped, from the time 0.
type series []storage.Series

func (s *series) add(description string, interval time.Duration) error {
	name, values, err := parser.ParseSeriesDesc(description)
	if err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	var samples []chunks.Sample
	for i, v := range values {
		if !v.Omitted {
			samples = append(samples, sample{(time.Duration(i) * interval).Milliseconds(), v.Value})
		}
	}
	*s = append(*s, storage.NewListSeries(name, samples))
	return nil
}

// sample is a value at a time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Querier implements storage.Queryable.
func (s series) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, one := range s {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
				found = append(found, one)
			}
		}
		return &set{found: found}
	}}, nil
}

// set iterates over series.
type set struct {
	storage.SeriesSet
	found []storage.Series
	next  int
}

func (s *set) Next() bool                        { s.next++; return s.next <= len(s.found) }
func (s *set) At() storage.Series                { return s.found[s.next-1] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

// evaluate calls do with labels and annotations of each alert of a rule that is pending or fires at a time.
func (s series) evaluate(engine *promql.Engine, rule rulefmt.Rule, at time.Duration, do func(own, annotations map[string]string)) error {
	now := time.Unix(0, 0).Add(at)
	query, err := engine.NewInstantQuery(context.Background(), s, nil, rule.Expr, now)
	if err != nil {
		return err
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		return err
	}
	for _, alert := range vector {
		data := template.AlertTemplateData(alert.Metric.Map(), nil, "", alert)
		var errs []error
		expanded := func(texts map[string]string, into map[string]string) map[string]string {
			for name, text := range texts {
				text = "{{$labels := .Labels}}{{$value := .Value}}" + text
				text, err := template.NewTemplateExpander(context.Background(), text, rule.Alert, data, model.TimeFromUnixNano(now.UnixNano()),
					nil, &url.URL{}, nil).Expand()
				into[name], errs = text, append(errs, err)
			}
			return into
		}
		own := alert.Metric.Map()
		delete(own, model.MetricNameLabel)
		own, annotations := expanded(rule.Labels, own), expanded(rule.Annotations, map[string]string{})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		do(own, annotations)
	}
	return nil
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
