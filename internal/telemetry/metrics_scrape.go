package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names is the prefix of the names of the operator's own metrics.
type Names string

// Set sets the value of a series; it is called once for each, with the values of the labels.
type Set func(value int, labels ...string)

// Gauge returns a gauge whose series are read at a scrape, so that an idle operator has nothing to do.
func (n Names) Gauge(name string, read func(Set)) prometheus.Collector {
	d := define(name, gauge)
	return &scraped{prometheus.NewDesc(d.fullName(string(n)), d.help, d.labels, nil), read}
}

type scraped struct {
	desc *prometheus.Desc
	read func(Set)
}

func (s *scraped) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

func (s *scraped) Collect(to chan<- prometheus.Metric) {
	s.read(func(value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(value), valid(labels)...)
	})
}

// tickPeriod is the time between two live ticks.
const tickPeriod = 10 * time.Second

// ticks counts the time since the start.
func ticks(prefix string, now func() time.Time) prometheus.Collector {
	d, started := define("live_ticks", counter), now()
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: d.fullName(prefix), Help: d.help}, func() float64 {
		return float64(1 + now().Sub(started)/tickPeriod)
	})
}
