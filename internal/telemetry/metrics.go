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

// MetricsOptions are those of Metrics. All fields may be left out.
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

	queueActions *prometheus.HistogramVec
	merged       *prometheus.CounterVec

	enableSeconds, enableSuccess *prometheus.GaugeVec
	enableErrors                 *prometheus.CounterVec

	waited                              *prometheus.CounterVec
	runSeconds, userSeconds, sysSeconds *prometheus.HistogramVec
	maxRSS                              *prometheus.GaugeVec
	failures, allowed, successes        *prometheus.CounterVec
	kubectlCalls, apiWarnings           *prometheus.CounterVec
	workers                             *prometheus.GaugeVec
	workerStarts                        *prometheus.CounterVec
	workerSeconds                       *prometheus.HistogramVec

	objects             *prometheus.GaugeVec
	filtering, handling *prometheus.HistogramVec
	filterErrors        *prometheus.CounterVec
	keyErrors           *prometheus.CounterVec
	watchErrors         *prometheus.CounterVec
	shardDropped        *prometheus.CounterVec
	requests            *prometheus.CounterVec
	latency, oldLatency *prometheus.HistogramVec
	leader              *prometheus.GaugeVec
	reloads             *prometheus.CounterVec
	parked, dropped     *prometheus.CounterVec
	replaced            *prometheus.CounterVec
	lostEvents          *prometheus.CounterVec
	differences         *prometheus.CounterVec

	admissions, conversions             *prometheus.CounterVec
	admissionSeconds, conversionSeconds *prometheus.HistogramVec

	// vectors are all metrics with labels.
	vectors []vector
}

// vector is a metric with labels.
type vector interface {
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
	r := registration{prefix: o.Prefix, registry: o.Registry}
	m := &Metrics{
		opts:          o,
		queueActions:  r.histogram("tasks_queue_action_duration_seconds"),
		merged:        r.counter("tasks_queue_compaction_operations_total"),
		enableSeconds: r.gauge("hook_enable_kubernetes_bindings_seconds"),
		enableSuccess: r.gauge("hook_enable_kubernetes_bindings_success"),
		enableErrors:  r.counter("hook_enable_kubernetes_bindings_errors_total"),
		waited:        r.counter("task_wait_in_queue_seconds_total"),
		runSeconds:    r.histogram("hook_run_seconds"),
		userSeconds:   r.histogram("hook_run_user_cpu_seconds"),
		sysSeconds:    r.histogram("hook_run_sys_cpu_seconds"),
		maxRSS:        r.gauge("hook_run_max_rss_bytes"),
		failures:      r.counter("hook_run_errors_total"),
		allowed:       r.counter("hook_run_allowed_errors_total"),
		successes:     r.counter("hook_run_success_total"),
		kubectlCalls:  r.counter("hook_kubectl_calls_total"),
		apiWarnings:   r.counter("hook_api_warnings_total"),
		workers:       r.gauge("hook_workers"),
		workerStarts:  r.counter("hook_worker_starts_total"),
		workerSeconds: r.histogram("hook_worker_start_seconds"),
		objects:       r.gauge("kube_snapshot_objects"),
		filtering:     r.histogram("kube_jq_filter_duration_seconds"),
		filterErrors:  r.counter("kube_jq_filter_errors_total"),
		keyErrors:     r.counter("kube_queue_key_errors_total"),
		handling:      r.histogram("kube_event_duration_seconds"),
		watchErrors:   r.counter("kubernetes_client_watch_errors_total"),
		shardDropped:  r.counter("shard_objects_dropped_total"),
		requests:      r.counter("kubernetes_client_request_result_total"),
		latency:       r.histogram("kubernetes_client_request_latency_seconds"),
		leader:        r.gauge("leader"),
		reloads:       r.counter("hooks_reloads_total"),
		parked:        r.counter("tasks_parked_total"),
		dropped:       r.counter("parked_contexts_dropped_total"),
		replaced:      r.counter("events_replaced_total"),
		lostEvents:    r.counter("hook_events_dropped_total"),
		differences:   r.counter("drift_differences_total"),
		oldLatency:    r.histogram("kubernetes_client_rate_limiter_latency_seconds"),

		admissions:        r.counter("admission_reviews_total"),
		admissionSeconds:  r.histogram("admission_review_duration_seconds"),
		conversions:       r.counter("conversion_reviews_total"),
		conversionSeconds: r.histogram("conversion_review_duration_seconds"),
	}
	m.vectors = r.vectors
	m.leader.WithLabelValues().Set(0)
	// Upstream's metrics of events that cannot happen here. The names stay reserved.
	r.counter("binding_monitor_missing_total")
	r.counter("factory_informer_dead_total")
	r.register(ticks(o.Prefix, o.now))
	if err := errors.Join(r.errs...); err != nil {
		return nil, fmt.Errorf("cannot register the metrics of the operator: %w", err)
	}
	return m, nil
}

var validPrefix = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)?$`)

// registration makes metrics of their definitions.
type registration struct {
	prefix   string
	registry prometheus.Registerer
	errs     []error
	vectors  []vector
}

func (r *registration) register(c prometheus.Collector) {
	if r.registry != nil {
		r.errs = append(r.errs, r.registry.Register(c))
	}
}

func (r *registration) counter(name string) *prometheus.CounterVec {
	d := define(name, counter)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.fullName(r.prefix), Help: d.help}, d.labels)
	r.register(v)
	r.vectors = append(r.vectors, v)
	return v
}

func (r *registration) gauge(name string) *prometheus.GaugeVec {
	d := define(name, gauge)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.fullName(r.prefix), Help: d.help}, d.labels)
	r.register(v)
	r.vectors = append(r.vectors, v)
	return v
}

func (r *registration) histogram(name string) *prometheus.HistogramVec {
	d := define(name, histogram)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.fullName(r.prefix), Help: d.help, Buckets: d.buckets.bounds}, d.labels)
	r.register(v)
	r.vectors = append(r.vectors, v)
	return v
}

// valid is a hook's name as the value of a label, which has to be UTF-8. Names of files need not be.
func valid(hook string) string { return strings.ToValidUTF8(hook, "\uFFFD") }

// Leads records that this replica leads.
func (m *Metrics) Leads() { m.leader.WithLabelValues().Set(1) }

// QueueAction records the duration of an operation on a queue.
func (m *Metrics) QueueAction(queue, action string, took time.Duration) {
	if !m.opts.NoQueueActions {
		m.queueActions.WithLabelValues(queue, action).Observe(took.Seconds())
	}
}

// Merged counts tasks of a hook that were merged into another one.
func (m *Metrics) Merged(queue, hook string, tasks int) {
	m.merged.WithLabelValues(queue, valid(hook)).Add(float64(tasks))
}

// BindingsEnabled records how long enabling all kubernetes bindings of a hook took.
func (m *Metrics) BindingsEnabled(hook string, took time.Duration) {
	hook = valid(hook)
	m.enableSeconds.WithLabelValues(hook).Set(took.Seconds())
	m.enableSuccess.WithLabelValues(hook).Set(1)
	m.enableErrors.WithLabelValues(hook)
}

// BindingsFailed counts failed attempts to enable the kubernetes bindings of a hook.
func (m *Metrics) BindingsFailed(hook string) {
	hook = valid(hook)
	m.enableErrors.WithLabelValues(hook).Inc()
	m.enableSuccess.WithLabelValues(hook).Set(0)
}

// HooksReloaded counts a reload.
func (m *Metrics) HooksReloaded(well bool) {
	result := "success"
	if !well {
		result = "error"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// ForgetBinding drops the series of a binding, in one queue or in all, ForgetHook those of a hook and ForgetQueue those of a
// queue.
func (m *Metrics) ForgetBinding(hook, binding, queue string) {
	labels := prometheus.Labels{"hook": valid(hook), "binding": binding}
	if queue != "" {
		labels["queue"] = queue
	}
	m.forget(labels)
}

func (m *Metrics) ForgetHook(hook string)   { m.forget(prometheus.Labels{"hook": valid(hook)}) }
func (m *Metrics) ForgetQueue(queue string) { m.forget(prometheus.Labels{"queue_name": queue}) }

// ForgetCRD drops the series of a CRD that no hook converts any more.
func (m *Metrics) ForgetCRD(crd string) { m.forget(prometheus.Labels{"crd": crd}) }

// forget drops the series that have all of these labels. A metric that lacks one of them has no such series.
func (m *Metrics) forget(labels prometheus.Labels) {
	for _, v := range m.vectors {
		v.DeletePartialMatch(labels)
	}
}

// Run is a run that has ended.
type Run struct {
	// Hook, Binding and Queue are as in log records: start-up runs have no binding and no queue.
	Hook, Binding, Queue string
	// Waited is how long the task waited for the run, Wall how long the run and its effects took.
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
	labels := []string{valid(r.Hook), r.Binding, r.Queue}
	m.waited.WithLabelValues(labels...).Add(r.Waited.Seconds())
	m.runSeconds.WithLabelValues(labels...).Observe(r.Wall.Seconds())
	if r.Process {
		m.userSeconds.WithLabelValues(labels...).Observe(r.User.Seconds())
		m.sysSeconds.WithLabelValues(labels...).Observe(r.System.Seconds())
		m.maxRSS.WithLabelValues(labels...).Set(float64(r.MaxRSS))
	}
	// All three are there from the first run on, so that the first failure is an increase.
	failures, allowed, successes := m.failures.WithLabelValues(labels...), m.allowed.WithLabelValues(labels...),
		m.successes.WithLabelValues(labels...)
	switch {
	case r.Failed && r.Allowed:
		allowed.Inc()
	case r.Failed:
		failures.Inc()
	default:
		successes.Inc()
	}
}

// Warned counts a warning of the API server.
func (m *Metrics) Warned(hook string) { m.apiWarnings.WithLabelValues(valid(hook)).Inc() }

// KubectlCalled counts calls of kubectl.
func (m *Metrics) KubectlCalled(hook, verb, way string, calls int) {
	m.kubectlCalls.WithLabelValues(valid(hook), verb, way).Add(float64(calls))
}

// Workers sets the number of workers of a hook.
func (m *Metrics) Workers(hook string, n int) { m.workers.WithLabelValues(valid(hook)).Set(float64(n)) }

// WorkerStarted counts a start of a worker; took is 0 if it was not ready.
func (m *Metrics) WorkerStarted(hook, reason string, took time.Duration) {
	m.workerStarts.WithLabelValues(valid(hook), reason).Inc()
	if took > 0 {
		m.workerSeconds.WithLabelValues(valid(hook)).Observe(took.Seconds())
	}
}

// TaskParked counts a task that was parked.
func (m *Metrics) TaskParked(hook, binding, queue string) {
	m.parked.WithLabelValues(valid(hook), binding, queue).Inc()
}

// ParkedContextDropped counts a parked context that was dropped for a reason.
func (m *Metrics) ParkedContextDropped(hook, binding, queue, reason string) {
	m.dropped.WithLabelValues(valid(hook), binding, queue, reason).Inc()
}

// EventReplaced counts a waiting Modified event that was dropped for a later one of its object.
func (m *Metrics) EventReplaced(hook, binding, queue string) {
	m.replaced.WithLabelValues(valid(hook), binding, queue).Inc()
}

// MemberDiffers counts an object of a set that another client has changed.
func (m *Metrics) MemberDiffers(hook, set, kind string) {
	m.differences.WithLabelValues(valid(hook), valid(set), valid(kind)).Inc()
}

// EventDropped counts an Event of a hook that was not published.
func (m *Metrics) EventDropped(hook string) { m.lostEvents.WithLabelValues(valid(hook)).Inc() }

// AdmissionReviewed counts an admission review. The series of all results exist from the first review on, so that the
// first failure is an increase.
func (m *Metrics) AdmissionReviewed(hook, binding, result string, took time.Duration) {
	hook = valid(hook)
	for _, r := range []string{"allowed", "denied", "failed"} {
		m.admissions.WithLabelValues(hook, binding, r)
	}
	m.admissions.WithLabelValues(hook, binding, result).Inc()
	m.admissionSeconds.WithLabelValues(hook, binding).Observe(took.Seconds())
}

// ConversionReviewed counts a conversion review, like AdmissionReviewed.
func (m *Metrics) ConversionReviewed(crd, result string, took time.Duration) {
	for _, r := range []string{"converted", "refused", "failed"} {
		m.conversions.WithLabelValues(crd, r)
	}
	m.conversions.WithLabelValues(crd, result).Inc()
	m.conversionSeconds.WithLabelValues(crd).Observe(took.Seconds())
}

// ShardDropped counts objects of a kind that were received and belong to other shards.
func (m *Metrics) ShardDropped(kind string, n int) {
	m.shardDropped.WithLabelValues(kind).Add(float64(n))
}

// WatchFailed counts ended watches by cause: expired, unexpected-eof or fail.
func (m *Metrics) WatchFailed(errorType string) { m.watchErrors.WithLabelValues(errorType).Inc() }

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
	hook = valid(hook)
	return &Binding{
		objects:      m.objects.WithLabelValues(hook, binding, queue),
		filtering:    m.filtering.WithLabelValues(hook, binding, queue),
		filterErrors: m.filterErrors.WithLabelValues(hook, binding, queue),
		keyErrors:    m.keyErrors.WithLabelValues(hook, binding, queue),
		handling:     m.handling.WithLabelValues(hook, binding, queue),
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
