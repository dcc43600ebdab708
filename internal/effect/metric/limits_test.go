package metric_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
)

// flood is operations that make n series, each with what change does to it.
func flood(n int, change func(i int, m *effect.Metric)) []effect.Metric {
	ops := make([]effect.Metric, n)
	for i := range ops {
		ops[i] = effect.Metric{Name: "g", Action: effect.Set, Value: 1}
		change(i, &ops[i])
	}
	return ops
}

func byLabel(i int, m *effect.Metric) { m.Labels = map[string]string{"pod": fmt.Sprint(i)} }

// The limit of bytes applies to each hook alone: long labels, names and labels that another hook uses do not take its share.
func TestBytesLimit(t *testing.T) {
	var log bytes.Buffer
	const limit = 1 << 20
	store := metric.New(metric.Options{Log: testLog(&log), MaxBytes: limit})
	long := func(i int, m *effect.Metric) {
		byLabel(i, m)
		m.Labels["l"] = strings.Repeat("x", 60_000)
	}
	store.Apply("b.sh", flood(500, byLabel))
	store.Apply("a.sh", flood(100, long))
	store.Apply("c.sh", flood(2000, func(i int, m *effect.Metric) { m.Name = fmt.Sprint("name", i) }))
	store.Apply("d.sh", flood(1000, func(i int, m *effect.Metric) { m.Labels = map[string]string{fmt.Sprint("l", i): "x"} }))
	got := store.Series()
	if got["a.sh"] < 5 || got["a.sh"] > 17 || got["c.sh"] < 200 || got["c.sh"] > 1000 || got["d.sh"] < 200 || got["b.sh"] != 500 {
		t.Errorf("series %v", got)
	}
	const want = `error="the series of the hook take as much memory as they may"`
	if got := strings.Count(log.String(), want); got < 3 {
		t.Errorf("log %s", log.String())
	}
	log.Reset()
	store.Apply("b.sh", flood(600, byLabel)) // the others have taken nothing of its share
	store.Apply("c.sh", flood(1, byLabel))   // its gauges expire, its names stay
	store.Apply("c.sh", flood(1, byLabel))   // there is room since then
	if got := store.Series(); got["b.sh"] != 600 || got["c.sh"] != 1 {
		t.Errorf("series %v, log %s", got, log.String())
	}
	log.Reset()
	store.Apply("a.sh", flood(1, func(_ int, m *effect.Metric) { *m = effect.Metric{Action: effect.Expire} }))
	store.Apply("a.sh", flood(500, byLabel)) // what has expired makes room
	if got := store.Series(); got["a.sh"] != 500 || log.Len() > 0 {
		t.Errorf("series %v, log %s", got, log.String())
	}
	_, text := scrape(t, handlerOf(store))
	if strings.Contains(text, `hook="b.sh",l=""`) || strings.Contains(text, `hook="b.sh",l1=""`) {
		t.Errorf("a series has the labels of another hook: %.2000s", text)
	}
}

// What hooks can do to make a run or a scrape cost the square of what they write.
func TestFloodsOfMetrics(t *testing.T) {
	n := 3_000
	if os.Getenv("LONG") != "" {
		n = 120_000
	}
	for _, test := range []struct {
		name   string
		change func(i int, m *effect.Metric)
		kept   int
	}{
		{"a label name of its own for each series", func(i int, m *effect.Metric) { m.Labels = map[string]string{fmt.Sprint("l", i): "x"} }, 999},
		{"a group of its own for each series", func(i int, m *effect.Metric) { byLabel(i, m); m.Group = fmt.Sprint("g", i) }, n},
		{"a name of its own for each series", func(i int, m *effect.Metric) { m.Name = fmt.Sprint("g", i) }, n},
		{"many names that do not fit", func(i int, m *effect.Metric) { m.Name = fmt.Sprint("promhttp_metric_handler_", i) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			store := metric.New(metric.Options{Log: testLog(&log)})
			started := time.Now()
			store.Apply("a.sh", flood(n, test.change))
			status, text := scrape(t, handlerOf(store))
			if took := time.Since(started); took > 5*time.Minute {
				t.Errorf("it took %s", took)
			}
			if got := store.Series()["a.sh"]; got != test.kept {
				t.Errorf("%d series, want %d", got, test.kept)
			}
			if status != 200 || len(text) > 100<<20 || strings.Count(log.String(), "\n") > 51 {
				t.Errorf("status %d, %d bytes, log %.5000s", status, len(text), log.String())
			}
		})
	}
}
