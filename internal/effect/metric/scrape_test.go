package metric_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/wire"
)

const (
	hooks  = 4
	runs   = 50
	perRun = 5
)

// TestScrapesNeverFail lets four hooks return a thousand operations, as odd as the file format allows, while
// Prometheus scrapes all the time.
func TestScrapesNeverFail(t *testing.T) {
	store := metric.New(metric.Options{Log: slog.New(slog.DiscardHandler)})
	handler := handlerOf(store)
	var running, scraping sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		scraping.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, text := scrape(t, handler); !checkScrape(t, text) {
					return
				}
			}
		})
	}
	for i := range hooks {
		running.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range runs {
				store.Apply(fmt.Sprintf("hook-%d\xff.sh", i), parse(t, randomFile(random, n)))
			}
		})
	}
	running.Wait()
	close(over)
	scraping.Wait()
	_, text := scrape(t, handler)
	checkScrape(t, text)
	for i := range hooks {
		if want := fmt.Sprintf("runs{hook=\"hook-%d\uFFFD.sh\"} %d\n", i, runs); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// randomFile is a metrics file that a hook could write: around random operations, two gauges that are always equal.
func randomFile(random *rand.Rand, n int) []byte {
	file := fmt.Appendf(nil, "{\"name\":\"first\",\"set\":%d}\n{\"name\":\"runs\",\"add\":1}\n", n)
	for len(strings.Split(string(file), "\n")) <= 2+perRun {
		op := randomOperation(random)
		if _, _, err := wire.ParseMetrics([]byte(op)); err == nil {
			file = append(file, op...)
		}
	}
	return fmt.Appendf(file, `{"name":"last","set":%d}`, n)
}

func randomOperation(random *rand.Rand) string {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	label := func() string {
		return fmt.Sprintf("%q:%q", pick("a", "b", "hook", "le", "__x", "a-b", "quantile", "job"), pick("", "1", "2", "ü\n\"\\", "{}"))
	}
	return fmt.Sprintf(`{"name":%q,"action":%q,"value":%s,"buckets":%s,"labels":{%s,%s},"group":%q}`+"\n",
		pick("m", "m_sum", "m_count", "m_bucket", "m_total", "n", "n_sum", "promhttp_metric_handler_errors_total", "my-metric", "ü"),
		pick("set", "add", "observe", "expire", "inc"), pick("0", "1", "-1", "1e308", "-1e308", "0.5"),
		pick("[]", "[1]", "[3,2,1]", "[1,1,-1e308,1e308]"), label(), label(), pick("x", "y", "z"))
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
