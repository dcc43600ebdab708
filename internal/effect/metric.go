package effect

// Metric is one operation on the metrics that hooks keep.
type Metric struct {
	// Name is a metric name by the rules of Prometheus. It may be empty for Expire only.
	Name   string
	Action MetricAction
	// Value is finite, and not negative for Add. It means nothing for Expire.
	Value float64
	// Buckets are the upper bounds of a histogram, in any order; an empty list stands for the usual ones.
	// They mean something for Observe only.
	Buckets []float64
	// Labels have valid names, none of which begins with "__", and values in UTF-8. Observe has no label "le".
	Labels map[string]string
	// Group is what expires together; empty means the hook's own group.
	Group string
}

// MetricAction is what to do with a metric. It also says of which type the metric is.
type MetricAction int

const (
	// Add increases a counter.
	Add MetricAction = iota + 1
	// Set gives a gauge its value.
	Set
	// Observe counts a value in a histogram.
	Observe
	// Expire removes all metrics of a group.
	Expire
)

// String is the word that hooks write.
func (a MetricAction) String() string {
	switch a {
	case Add:
		return "add"
	case Set:
		return "set"
	case Observe:
		return "observe"
	case Expire:
		return "expire"
	}
	return "unknown"
}
