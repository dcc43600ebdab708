package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Describe sends nothing: which metrics hooks write is not known in advance.
func (s *Store) Describe(chan<- *prometheus.Desc) {}

// Collect sends a snapshot of all series.
func (s *Store) Collect(to chan<- prometheus.Metric) {
	for _, m := range s.snapshot() {
		to <- m
	}
}

func (s *Store) snapshot() (all []prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.families {
		for _, sr := range f.series {
			all = append(all, sr.metric())
		}
	}
	return all
}

// metric is the series as it is now, with all labels that its hook has used for the family.
func (s *series) metric() prometheus.Metric {
	values := make([]string, len(s.share.labels))
	for i, name := range s.share.labels {
		values[i] = s.labels[name]
	}
	switch s.family.action {
	case effect.Add:
		return prometheus.MustNewConstMetric(s.share.desc, prometheus.CounterValue, s.value, values...)
	case effect.Set:
		return prometheus.MustNewConstMetric(s.share.desc, prometheus.GaugeValue, s.value, values...)
	}
	buckets, below := make(map[float64]uint64, len(s.counts)), uint64(0)
	for i, bound := range s.family.buckets {
		below += s.counts[i]
		buckets[bound] = below
	}
	return prometheus.MustNewConstHistogram(s.share.desc, s.count, s.value, buckets, values...)
}
