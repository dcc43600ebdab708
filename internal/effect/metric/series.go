package metric

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// hookLabel is the label with the name of the hook that wrote a series.
const hookLabel = "hook"

// family is all series with one name.
type family struct {
	name string
	// action is the action of the first operation. It determines the type.
	action effect.MetricAction
	// buckets are the upper bounds of a histogram, ascending, without duplicates.
	buckets []float64
	series  map[string]*series
	// shares has the share of each hook in the family.
	shares map[string]*share
}

// share has the series of one hook in a family. Series of other hooks do not get its labels: their hooks would pay for them.
type share struct {
	// labels are the names of all labels that a series of the hook has ever had, sorted.
	labels []string
	desc   *prometheus.Desc
}

func newFamily(op *effect.Metric) *family {
	f := &family{name: op.Name, action: op.Action, series: map[string]*series{}, shares: map[string]*share{}}
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
		s = &share{}
		f.learn(s, []string{hookLabel})
		f.shares[hookName] = s
	}
	return s
}

// series is one set of label values. Its family's lock guards it.
type series struct {
	family *family
	share  *share
	key    string
	// cost is the part of the series in the bytes of its hook.
	cost int
	// labels are those with a value, hookLabel among them.
	labels map[string]string

	// group is the owner. It is empty only until the first operation.
	group string
	// written is the count of the last Apply that wrote the series.
	written uint64

	// value is the value of a counter or gauge, the sum of a histogram.
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
	f.series[key] = &series{family: f, share: f.shareOf(hookName), key: key, labels: labels, counts: make([]uint64, len(f.buckets))}
	return f.series[key]
}

// These are measured sizes in memory, rounded up.
const (
	familyBytes = 1 << 10
	shareBytes  = 512
	seriesBytes = 512
	// labelBytes is the size of a label of a series, without its name and value.
	labelBytes = 160
)

// costOf returns the bytes of a new series: its key and its labels.
func (f *family) costOf(key string, given map[string]string) int {
	n := seriesBytes + len(key) + 8*len(f.buckets)
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
			cost += labelBytes + len(name)
		}
	}
	return more, cost
}

// learn adds label names.
func (f *family) learn(s *share, more []string) {
	s.labels = slices.Concat(s.labels, more) // desc keeps the earlier ones
	slices.Sort(s.labels)
	s.desc = prometheus.NewDesc(f.name, f.name, s.labels, nil)
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
