package metric

import (
	"fmt"
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
	// labels are the names of all labels that a series of this family has ever had, sorted.
	labels []string
	series map[string]*series
	desc   *prometheus.Desc
}

func newFamily(op *effect.Metric) *family {
	f := &family{name: op.Name, action: op.Action, labels: []string{hookLabel}, series: map[string]*series{}}
	if op.Action == effect.Observe {
		f.buckets = op.Buckets
		if len(f.buckets) == 0 {
			f.buckets = prometheus.DefBuckets
		}
		f.buckets = slices.Compact(slices.Sorted(slices.Values(f.buckets)))
	}
	f.describe()
	return f
}

func (f *family) describe() { f.desc = prometheus.NewDesc(f.name, f.name, f.labels, nil) }

// series is one set of label values. Its family's lock guards it.
type series struct {
	family *family
	key    string
	// labels are those with a value, hookLabel among them.
	labels map[string]string
	// pairs are labels in the form of the protocol, one for each of the family's. They are replaced and never changed:
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
	s := &series{family: f, key: key, labels: labels, counts: make([]uint64, len(f.buckets))}
	f.series[key] = s
	return s
}

// learn adds label names to those of the family, or returns why that is impossible.
func (f *family) learn(labels map[string]string) (problem string) {
	var more []string
	for name := range labels {
		if _, known := slices.BinarySearch(f.labels, name); !known {
			more = append(more, name)
		}
	}
	switch {
	case len(more) == 0:
	case len(f.labels)+len(more) > maxLabels:
		return fmt.Sprintf("the metric would have more than %d labels: use other values, not other labels", maxLabels)
	default:
		f.labels = slices.Concat(f.labels, more) // a scrape may still read the old ones
		slices.Sort(f.labels)
		f.describe()
	}
	return ""
}

// key returns equal text for equal sets of labels. An empty value is no label.
func (f *family) key(hookName string, labels map[string]string) string {
	var b strings.Builder
	for _, name := range f.labels {
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
