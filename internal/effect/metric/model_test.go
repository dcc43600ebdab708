package metric_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
)

// plain does what a Store does, in the words of the documentation and without caring for speed: first it removes
// what a run does not name again, then it does the operations.
type plain struct {
	restart bool
	actions map[string]effect.MetricAction
	buckets map[string][]float64
	series  []*plainSeries
}

type plainSeries struct {
	name, group string
	// labels have no empty values.
	labels map[string]string
	values []float64
}

func (p *plain) apply(hook string, ops []effect.Metric) {
	ops = slices.Clone(ops)
	for i := range ops {
		if ops[i].Group == "" {
			ops[i].Group = hook
		}
	}
	for _, op := range ops {
		p.keep(func(s *plainSeries) bool {
			return s.group != op.Group || !p.restart && (p.named(hook, s, ops) || s.group == hook && p.actions[s.name] != effect.Set)
		})
	}
	for _, op := range ops {
		p.do(hook, op)
	}
}

// keep removes all series but those that keep wants.
func (p *plain) keep(keep func(*plainSeries) bool) {
	p.series = slices.DeleteFunc(p.series, func(s *plainSeries) bool { return !keep(s) })
}

func (p *plain) named(hook string, s *plainSeries, ops []effect.Metric) bool {
	return slices.ContainsFunc(ops, func(op effect.Metric) bool {
		return op.Action == p.actions[s.name] && s.is(hook, op)
	})
}

func (s *plainSeries) is(hook string, op effect.Metric) bool {
	return s.name == op.Name && maps.Equal(s.labels, plainLabels(hook, op))
}

func plainLabels(hook string, op effect.Metric) map[string]string {
	labels := maps.Clone(op.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["hook"] = hook
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

func (p *plain) do(hook string, op effect.Metric) {
	if op.Action == effect.Expire {
		p.keep(func(s *plainSeries) bool { return s.group != op.Group })
		return
	}
	if p.actions[op.Name] == 0 && !p.clashes(op) {
		p.actions[op.Name], p.buckets[op.Name] = op.Action, op.Buckets
	}
	if p.actions[op.Name] != op.Action {
		return
	}
	at := slices.IndexFunc(p.series, func(s *plainSeries) bool { return s.is(hook, op) })
	if at < 0 {
		at = len(p.series)
		p.series = append(p.series, &plainSeries{name: op.Name, labels: plainLabels(hook, op)})
	}
	s := p.series[at]
	s.group, s.values = op.Group, append(s.values, op.Value)
}

func (p *plain) clashes(op effect.Metric) bool {
	for name, action := range p.actions {
		for _, suffix := range []string{"_sum", "_count", "_bucket"} {
			if op.Name == name+suffix && action == effect.Observe || op.Name+suffix == name && op.Action == effect.Observe {
				return true
			}
		}
	}
	return false
}

// lines are all series, each on one line.
func (p *plain) lines() []string {
	var lines []string
	for _, s := range p.series {
		line := fmt.Sprint(s.name, s.labels, " ", p.actions[s.name], " ")
		switch p.actions[s.name] {
		case effect.Set:
			line += fmt.Sprint(s.values[len(s.values)-1])
		case effect.Add:
			line += fmt.Sprint(sum(s.values))
		default:
			line += fmt.Sprint(len(s.values), sum(s.values))
			for _, bound := range slices.Sorted(slices.Values(p.buckets[s.name])) {
				line += fmt.Sprintf(" %v:%d", bound, within(s.values, bound))
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

func within(values []float64, bound float64) (n int) {
	for _, v := range values {
		if v >= 0 && v <= bound {
			n++
		}
	}
	return n
}

// scraped reads a scrape as Prometheus does, into the same lines.
func scraped(t errorer, text string) []string {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Errorf("Prometheus cannot read the scrape: %v\n%s", err, text)
	}
	var lines []string
	for name, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, pair := range m.Label {
				if pair.GetValue() != "" {
					labels[pair.GetName()] = pair.GetValue()
				}
			}
			lines = append(lines, fmt.Sprint(name, labels, " ", scrapedValue(m)))
		}
	}
	slices.Sort(lines)
	return lines
}

type errorer interface{ Errorf(string, ...any) }

func scrapedValue(m *dto.Metric) string {
	switch {
	case m.Gauge != nil:
		return fmt.Sprint("set ", m.Gauge.GetValue())
	case m.Counter != nil:
		return fmt.Sprint("add ", m.Counter.GetValue())
	}
	line := fmt.Sprint("observe ", m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum())
	for _, b := range m.Histogram.Bucket[:len(m.Histogram.Bucket)-1] {
		line += fmt.Sprintf(" %v:%d", b.GetUpperBound(), b.GetCumulativeCount())
	}
	return line
}

func TestStoreIsLikeThePlainOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		restart := rapid.Bool().Draw(r, "restart")
		store := metric.New(metric.Options{Restart: restart})
		p := &plain{restart: restart, actions: map[string]effect.MetricAction{}, buckets: map[string][]float64{}}
		handler := handlerOf(store)
		r.Repeat(map[string]func(*rapid.T){
			"run": func(r *rapid.T) {
				hook := rapid.SampledFrom([]string{"a.sh", "b.sh"}).Draw(r, "hook")
				ops := rapid.SliceOfN(rapid.Custom(drawOperation), 0, 6).Draw(r, "ops")
				store.Apply(hook, ops)
				p.apply(hook, ops)
			},
			"": func(r *rapid.T) {
				_, text := scrape(t, handler)
				if got, want := scraped(r, text), p.lines(); !slices.Equal(got, want) {
					r.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			},
		})
	})
}

func drawOperation(r *rapid.T) effect.Metric {
	one := func(of ...string) string { return rapid.SampledFrom(of).Draw(r, "") }
	op := effect.Metric{
		Name:   one("m", "m", "n", "m_sum", "m_count", "m_bucket"),
		Action: rapid.SampledFrom([]effect.MetricAction{effect.Add, effect.Set, effect.Set, effect.Observe}).Draw(r, "action"),
		Value:  float64(rapid.IntRange(0, 4).Draw(r, "value")),
		Group:  one("", "", "x", "y", "a.sh"),
	}
	if rapid.IntRange(0, 9).Draw(r, "expire") == 0 {
		return effect.Metric{Action: effect.Expire, Group: op.Group}
	}
	if op.Action == effect.Observe {
		op.Buckets = rapid.SampledFrom([][]float64{{1, 2}, {3, 1, -1}}).Draw(r, "buckets")
	}
	for _, name := range []string{"p", "q", "hook"} {
		if value := one("none", "none", "", "1"); value != "none" {
			if op.Labels == nil {
				op.Labels = map[string]string{}
			}
			op.Labels[name] = value
		}
	}
	if op.Action != effect.Add && rapid.IntRange(0, 3).Draw(r, "negative") == 0 {
		op.Value = 0 - op.Value // not -0
	}
	return op
}
