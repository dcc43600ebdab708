package metric_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shell-operator/shell-operator/internal/effect/metric"
)

// TestScrapesSeeWholeRuns lets four hooks write while Prometheus scrapes all the time.
func TestScrapesSeeWholeRuns(t *testing.T) {
	const hooks, runs = 4, 500
	store := metric.New(metric.Options{Log: slog.New(slog.DiscardHandler)})
	handler := handlerOf(store)
	var running, scraping sync.WaitGroup
	var over atomic.Bool
	for range 2 {
		scraping.Go(func() {
			for ok := true; ok && !over.Load(); {
				_, text := scrape(t, handler)
				ok = checkScrape(t, text)
			}
		})
	}
	for i := range hooks {
		running.Go(func() {
			for n := range runs {
				store.Apply(fmt.Sprintf("hook-%d\xff.sh", i), parse(t, fmt.Appendf(nil, `{"name":"first","set":%d}{"name":"runs","add":1}
{"name":"m","action":"observe","value":%[1]d,"buckets":[1,10]}{"name":"last","set":%[1]d}`, n)))
			}
		})
	}
	running.Wait()
	over.Store(true)
	scraping.Wait()
	_, text := scrape(t, handler)
	checkScrape(t, text)
	for i := range hooks {
		if want := fmt.Sprintf("runs{hook=\"hook-%d\uFFFD.sh\"} %d\n", i, runs); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// checkScrape reads a scrape as Prometheus does, and checks that each hook's gauges are of the same run.
func checkScrape(t *testing.T, text string) bool {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Errorf("Prometheus cannot read the scrape: %v\n%s", err, text)
		return false
	}
	seen := map[string]float64{}
	for _, name := range []string{"first", "last"} {
		for _, m := range families[name].GetMetric() {
			hook, value := m.Label[0].GetValue(), m.Gauge.GetValue()
			if before, ok := seen[hook]; ok && before != value || !ok && name == "last" {
				t.Errorf("a part of a run is visible: %s has first %v and last %v", hook, before, value)
				return false
			}
			seen[hook] = value
		}
	}
	return true
}
