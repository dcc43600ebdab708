package telemetry

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricsOptions configure Metrics. All fields may be left out.
type MetricsOptions struct {
	// Registry receives the metrics; it may be nil.
	Registry prometheus.Registerer
	// Prefix begins all names. It may be empty.
	Prefix string
	// NoQueueActions leaves out how long operations on queues take.
	NoQueueActions bool

	now func() time.Time
}

// Metrics are the metrics of the operator itself. Methods may be called at the same time.
type Metrics struct {
	opts MetricsOptions
	// These are the definitions that are not scraped, by name.
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	// vectors are all of them.
	vectors []vector
}

// vector is a metric with labels.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// NewMetrics makes the metrics and registers them. It fails when the prefix cannot begin a name, or the registry has
// other metrics with these names.
func NewMetrics(o MetricsOptions) (*Metrics, error) {
	if !validPrefix.MatchString(o.Prefix) {
		return nil, fmt.Errorf("the metrics prefix %q is not valid: use letters, digits and \"_\", and do not begin with a digit", o.Prefix)
	}
	if o.now == nil {
		o.now = time.Now
	}
	m := &Metrics{opts: o, counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{}}
	for _, d := range definitions {
		if d.scraped {
			continue
		}
		name := d.fullName(o.Prefix)
		var v vector
		switch d.typ {
		case counter:
			m.counters[d.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: d.help}, d.labels)
			v = m.counters[d.name]
		case gauge:
			m.gauges[d.name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: d.help}, d.labels)
			v = m.gauges[d.name]
		case histogram:
			m.histograms[d.name] = prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: name, Help: d.help, Buckets: d.buckets.bounds}, d.labels)
			v = m.histograms[d.name]
		}
		m.vectors = append(m.vectors, v)
	}
	m.set("leader", 0)
	if o.Registry == nil {
		return m, nil
	}
	errs := []error{o.Registry.Register(ticks(o.Prefix, o.now))}
	for _, v := range m.vectors {
		errs = append(errs, o.Registry.Register(v))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cannot register the metrics of the operator: %w", err)
	}
	return m, nil
}

var validPrefix = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)?$`)

// add, set and observe change a series of a metric. A name that is not there is a bug that TestEveryMetricIsThere finds.
func (m *Metrics) add(name string, n int, labels ...string) {
	m.counters[name].WithLabelValues(valid(labels)...).Add(float64(n))
}

func (m *Metrics) set(name string, value float64, labels ...string) {
	m.gauges[name].WithLabelValues(valid(labels)...).Set(value)
}

func (m *Metrics) observe(name string, took time.Duration, labels ...string) {
	m.histograms[name].WithLabelValues(valid(labels)...).Observe(took.Seconds())
}

// valid makes the values of labels UTF-8. Names of hooks are names of files, which need not be.
func valid(labels []string) []string {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD")
	}
	return labels
}

// Leads records that this replica leads.
func (m *Metrics) Leads() { m.set("leader", 1) }

// QueueAction records the duration of an operation on a queue.
func (m *Metrics) QueueAction(queue, action string, took time.Duration) {
	if !m.opts.NoQueueActions {
		m.observe("tasks_queue_action_duration_seconds", took, queue, action)
	}
}

// Merged counts tasks of a hook that were merged into another one.
func (m *Metrics) Merged(queue, hook string, tasks int) {
	m.add("tasks_queue_compaction_operations_total", tasks, queue, hook)
}

// BindingsEnabled records how long enabling all kubernetes bindings of a hook took.
func (m *Metrics) BindingsEnabled(hook string, took time.Duration) {
	m.set("hook_enable_kubernetes_bindings_seconds", took.Seconds(), hook)
	m.set("hook_enable_kubernetes_bindings_success", 1, hook)
	m.add("hook_enable_kubernetes_bindings_errors_total", 0, hook)
}

// BindingsFailed counts failed attempts to enable the kubernetes bindings of a hook.
func (m *Metrics) BindingsFailed(hook string) {
	m.add("hook_enable_kubernetes_bindings_errors_total", 1, hook)
	m.set("hook_enable_kubernetes_bindings_success", 0, hook)
}

// HooksReloaded counts a reload.
func (m *Metrics) HooksReloaded(well bool) {
	result := "success"
	if !well {
		result = "error"
	}
	m.add("hooks_reloads_total", 1, result)
}

// Series are those that have all of these labels.
type Series [3]struct{ Label, Value string }

// Forget drops series. A metric that lacks one of the labels has none of them.
func (m *Metrics) Forget(s Series) {
	labels := prometheus.Labels{}
	for _, l := range s {
		if l.Label != "" {
			labels[l.Label] = strings.ToValidUTF8(l.Value, "\uFFFD")
		}
	}
	for _, v := range m.vectors {
		v.DeletePartialMatch(labels)
	}
}

// ForgetQueue drops the series of a queue.
func (m *Metrics) ForgetQueue(queue string) { m.Forget(Series{{"queue_name", queue}}) }

// Run is a run that has ended.
type Run struct {
	// Hook, Binding and Queue are as in log records: start-up runs have no binding and no queue.
	Hook, Binding, Queue string
	// Waited is the task's wait for the run, Wall the time of the run and its effects.
	Waited, Wall time.Duration
	// Process reports that there was a process. The next fields are its resource usage.
	Process      bool
	User, System time.Duration
	// MaxRSS is in bytes.
	MaxRSS int64
	// Failed reports that the run failed, Allowed that its binding allows that.
	Failed, Allowed bool
}

// RunEnded records a run.
func (m *Metrics) RunEnded(r Run) {
	labels := []string{r.Hook, r.Binding, r.Queue}
	m.counters["task_wait_in_queue_seconds_total"].WithLabelValues(valid(labels)...).Add(r.Waited.Seconds())
	m.observe("hook_run_seconds", r.Wall, labels...)
	if r.Process {
		m.observe("hook_run_user_cpu_seconds", r.User, labels...)
		m.observe("hook_run_sys_cpu_seconds", r.System, labels...)
		m.set("hook_run_max_rss_bytes", float64(r.MaxRSS), labels...)
	}
	outcome := "hook_run_success_total"
	switch {
	case r.Failed && r.Allowed:
		outcome = "hook_run_allowed_errors_total"
	case r.Failed:
		outcome = "hook_run_errors_total"
	}
	// All three are there from the first run on, so that the first failure is an increase.
	for _, name := range []string{"hook_run_success_total", "hook_run_allowed_errors_total", "hook_run_errors_total"} {
		m.add(name, 0, labels...)
	}
	m.add(outcome, 1, labels...)
}

// WritesLate counts a run that has waited in vain for what an earlier one has written.
func (m *Metrics) WritesLate(hook string) { m.add("hook_own_writes_late_total", 1, hook) }

// Warned counts a warning of the API server.
func (m *Metrics) Warned(hook string) { m.add("hook_api_warnings_total", 1, hook) }

// KubectlCalled counts calls of kubectl.
func (m *Metrics) KubectlCalled(hook, verb, way string, calls int) {
	m.add("hook_kubectl_calls_total", calls, hook, verb, way)
}

// Workers sets the number of workers of a hook.
func (m *Metrics) Workers(hook string, n int) { m.set("hook_workers", float64(n), hook) }

// WorkerStarted counts a start of a worker; took is 0 if it was not ready.
func (m *Metrics) WorkerStarted(hook string, took time.Duration) {
	m.add("hook_worker_starts_total", 1, hook)
	if took > 0 {
		m.observe("hook_worker_start_seconds", took, hook)
	}
}

// TaskParked counts a task that was parked.
func (m *Metrics) TaskParked(hook, binding, queue string) {
	m.add("tasks_parked_total", 1, hook, binding, queue)
}

// ParkedContextDropped counts a parked context that was dropped for a reason.
func (m *Metrics) ParkedContextDropped(hook, binding, queue, reason string) {
	m.add("parked_contexts_dropped_total", 1, hook, binding, queue, reason)
}

// EventReplaced counts a waiting Modified event that was dropped for a later one of its object.
func (m *Metrics) EventReplaced(hook, binding, queue string) {
	m.add("events_replaced_total", 1, hook, binding, queue)
}

// MemberDiffers counts an object of a set that another client has changed.
func (m *Metrics) MemberDiffers(hook, set, kind string) {
	m.add("drift_differences_total", 1, hook, set, kind)
}

// EventDropped counts an Event of a hook that was not published.
func (m *Metrics) EventDropped(hook string) { m.add("hook_events_dropped_total", 1, hook) }

// AdmissionReviewed counts an admission review. The series of all results exist from the first review on, so that the
// first failure is an increase.
func (m *Metrics) AdmissionReviewed(hook, binding, result string, took time.Duration) {
	for _, r := range []string{"allowed", "denied", "failed"} {
		m.add("admission_reviews_total", 0, hook, binding, r)
	}
	m.add("admission_reviews_total", 1, hook, binding, result)
	m.observe("admission_review_duration_seconds", took, hook, binding)
}

// UnknownPath counts a review at a path that no hook of this replica has.
func (m *Metrics) UnknownPath(server string) { m.add("webhook_unknown_paths_total", 1, server) }

// ConversionReviewed counts a conversion review, like AdmissionReviewed.
func (m *Metrics) ConversionReviewed(crd, result string, took time.Duration) {
	for _, r := range []string{"converted", "refused", "failed"} {
		m.add("conversion_reviews_total", 0, crd, r)
	}
	m.add("conversion_reviews_total", 1, crd, result)
	m.observe("conversion_review_duration_seconds", took, crd)
}

// WatchFailed counts ended watches by cause: expired, unexpected-eof or fail.
func (m *Metrics) WatchFailed(errorType string) {
	m.add("kubernetes_client_watch_errors_total", 1, errorType)
}

// Binding are the metrics of one kubernetes binding. Bindings whose labels are the same add up.
type Binding struct {
	objects                 prometheus.Gauge
	filtering, handling     prometheus.Observer
	filterErrors, keyErrors prometheus.Counter
	// seen is the share of this binding in objects.
	seen atomic.Int64
}

// Binding returns the metrics of a binding. There should be one for each binding, made at the start: then what
// happens for every object needs no look-up.
func (m *Metrics) Binding(hook, binding, queue string) *Binding {
	labels := valid([]string{hook, binding, queue})
	return &Binding{
		objects:      m.gauges["kube_snapshot_objects"].WithLabelValues(labels...),
		filtering:    m.histograms["kube_jq_filter_duration_seconds"].WithLabelValues(labels...),
		filterErrors: m.counters["kube_jq_filter_errors_total"].WithLabelValues(labels...),
		keyErrors:    m.counters["kube_queue_key_errors_total"].WithLabelValues(labels...),
		handling:     m.histograms["kube_event_duration_seconds"].WithLabelValues(labels...),
	}
}

// Objects sets the number of objects of the binding.
func (b *Binding) Objects(n int) {
	if before := b.seen.Swap(int64(n)); before != int64(n) {
		b.objects.Add(float64(int64(n) - before))
	}
}

// Filtered records the duration of the filter for one object.
func (b *Binding) Filtered(took time.Duration) { b.filtering.Observe(took.Seconds()) }

// FilterFailed counts a failure of the filter, KeyFailed one of the jq key of the queue.
func (b *Binding) FilterFailed() { b.filterErrors.Inc() }
func (b *Binding) KeyFailed()    { b.keyErrors.Inc() }

// Handled records the time until a change was queued or dropped.
func (b *Binding) Handled(took time.Duration) { b.handling.Observe(took.Seconds()) }

// Transport measures requests to the API server, by component.
func (m *Metrics) Transport(component string, next http.RoundTripper) http.RoundTripper {
	return transport{m, component, next}
}
