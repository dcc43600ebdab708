package effect

// Metric is one operation on the metrics that hooks keep.
type Metric struct {
	Action MetricAction `json:"action"`
	// Name is a valid metric name of Prometheus. It may be empty for Expire only.
	Name string `json:"name,omitempty"`
	// Value is finite, and not negative for Add. Expire ignores it.
	Value float64 `json:"value"`
	// Labels have valid names, none of which begins with "__", and values in UTF-8. Observe has no label "le".
	Labels map[string]string `json:"labels,omitempty"`
	// Buckets are the upper bounds of a histogram, in any order; empty means the defaults of Prometheus. Only Observe has
	// them.
	Buckets []float64 `json:"buckets,omitzero"`
	// Group is the group of series that expire together; empty means the hook's own group.
	Group string `json:"group,omitempty"`
}

// MetricAction is the kind of an operation. It determines the type of the metric.
type MetricAction int

const (
	// Add increases a counter.
	Add MetricAction = iota + 1
	// Set sets a gauge.
	Set
	// Observe counts a value in a histogram.
	Observe
	// Expire removes all metrics of a group.
	Expire
)

// String returns the word that hooks write.
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

// MarshalText is String.
func (a MetricAction) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
