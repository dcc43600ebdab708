package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Describe sends nothing: which metrics hooks write is not known in advance.
func (s *Store) Describe(chan<- *prometheus.Desc) {}

// Collect sends a snapshot of all series.
func (s *Store) Collect(to chan<- prometheus.Metric) {
	samples := s.samples()
	for i := range samples {
		to <- &samples[i]
	}
}

func (s *Store) samples() []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.families {
		n += len(f.series)
	}
	samples := make([]sample, 0, n)
	for _, f := range s.families {
		for _, sr := range f.series {
			samples = append(samples, sr.sample())
		}
	}
	return samples
}

// sample is a series at one moment: a copy of it, and of what changes in it.
type sample struct{ series }

var _ prometheus.Metric = (*sample)(nil)

func (s *series) sample() sample {
	if len(s.pairs) != len(s.share.labels) { // the hook has used a new label; none is forgotten
		s.pairs = make([]*dto.LabelPair, len(s.share.labels))
		for i, name := range s.share.labels {
			if value := s.labels[name]; value != "" {
				s.pairs[i] = &dto.LabelPair{Name: new(name), Value: new(value)}
			} else {
				s.pairs[i] = s.share.empty[name]
			}
		}
	}
	sm := sample{*s}
	sm.counts = slices.Clone(s.counts)
	return sm
}

func (s *sample) Desc() *prometheus.Desc { return s.family.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.pairs
	switch s.family.action {
	case effect.Add:
		out.Counter = &dto.Counter{Value: &s.value}
	case effect.Set:
		out.Gauge = &dto.Gauge{Value: &s.value}
	default:
		out.Histogram = s.histogram()
	}
	return nil
}

func (s *sample) histogram() *dto.Histogram {
	h := &dto.Histogram{SampleSum: &s.value, SampleCount: &s.count, Bucket: make([]*dto.Bucket, len(s.counts))}
	below := uint64(0)
	for i, bound := range s.family.buckets {
		below += s.counts[i]
		h.Bucket[i] = &dto.Bucket{UpperBound: new(bound), CumulativeCount: new(below)}
	}
	return h
}
