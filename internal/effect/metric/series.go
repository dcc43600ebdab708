package metric

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// hookLabel is the label with the name of the hook that wrote a series.
const hookLabel = "hook"

// family is all series with one name.
type family struct {
	name string
	// action is that of the first operation. It determines the type.
	action effect.MetricAction
	// buckets are the upper bounds of a histogram, ascending, without duplicates.
	buckets []float64
	series  map[string]*series
	// shares are what each hook has of the family.
	shares map[string]*share
	desc   *prometheus.Desc
}

// share is what one hook has of a family. Series of other hooks do not get its labels: their hooks would pay for them.
type share struct {
	// labels are the names of all labels that a series of the hook has ever had, sorted.
	labels []string
	// empty are the pairs of labels without a value, by name, for all series.
	empty map[string]*dto.LabelPair
	// series counts those of the hook.
	series int
}

func newFamily(op *effect.Metric) *family {
	f := &family{name: op.Name, action: op.Action, series: map[string]*series{}, shares: map[string]*share{},
		desc: prometheus.NewDesc(op.Name, op.Name, nil, nil)}
	if op.Action == effect.Observe {
		f.buckets = op.Buckets
		if len(f.buckets) == 0 {
			f.buckets = prometheus.DefBuckets
		}
		f.buckets = slices.Compact(slices.Sorted(slices.Values(f.buckets)))
	}
	return f
}

// shareOf returns the share of a hook, a new one if there is none.
func (f *family) shareOf(hookName string) *share {
	s := f.shares[hookName]
	if s == nil {
		s = &share{labels: []string{hookLabel}, empty: map[string]*dto.LabelPair{}}
		f.shares[hookName] = s
	}
	return s
}

// series is one set of label values. Its family's lock guards it.
type series struct {
	family *family
	share  *share
	key    string
	// cost is what the series takes of the bytes of its hook.
	cost int
	// labels are those with a value, hookLabel among them.
	labels map[string]string
	// pairs are labels in the form of the protocol, one for each of the share's. They are replaced and never changed:
	// a scrape may still read them.
	pairs []*dto.LabelPair

	// group is the owner. It is empty only until the first operation.
	group string
	// written is the count of the last Apply that wrote the series.
	written uint64

	// value is that of a counter or gauge, the sum of a histogram.
	value float64
	// counts are the values in each bucket, not cumulative; count is their number.
	counts []uint64
	count  uint64
}

// add adds a series of a hook.
func (f *family) add(key, hookName string, given map[string]string) *series {
	labels := maps.Clone(given)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[hookLabel] = hookName
	s := &series{family: f, share: f.shareOf(hookName), key: key, labels: labels, counts: make([]uint64, len(f.buckets))}
	s.share.series++
	f.series[key] = s
	return s
}

// These are measured sizes in memory, rounded up.
const (
	familyBytes = 1 << 10
	shareBytes  = 512
	seriesBytes = 512
	// labelBytes are those of a label of a series, without its name and value; emptyBytes those of one without a value.
	labelBytes, emptyBytes = 160, 8
)

// costOf is what a new series takes: its key and its labels.
func (f *family) costOf(key string, names int, given map[string]string) int {
	n := seriesBytes + len(key) + 8*len(f.buckets) + emptyBytes*names
	for name, value := range given {
		n += labelBytes + len(name) + len(value)
	}
	return n
}

// unknown are the label names that no series of the hook has had yet, and what they take of its bytes.
func (s *share) unknown(labels map[string]string) (more []string, cost int) {
	for name := range labels {
		if _, known := slices.BinarySearch(s.labels, name); !known {
			more = append(more, name)
			cost += labelBytes + len(name) + emptyBytes*s.series
		}
	}
	return more, cost
}

// learn adds label names.
func (s *share) learn(more []string) {
	s.labels = slices.Concat(s.labels, more)
	slices.Sort(s.labels)
	for _, name := range more {
		s.empty[name] = &dto.LabelPair{Name: new(name), Value: new("")}
	}
}

// key returns equal text for equal sets of labels. An empty value is no label.
func (s *share) key(hookName string, labels map[string]string) string {
	var b strings.Builder
	for _, name := range s.labels {
		value := labels[name]
		if name == hookLabel {
			value = hookName
		}
		if value != "" {
			b.WriteString(name)
			b.WriteString(strconv.Quote(value))
		}
	}
	return b.String()
}

// observe counts a value in the first bucket that has it. Negative values are in the infinite bucket only, as in
// flant/shell-operator.
func (s *series) observe(value float64) {
	s.value += value
	s.count++
	if i, _ := slices.BinarySearch(s.family.buckets, value); value >= 0 && i < len(s.counts) {
		s.counts[i]++
	}
}
