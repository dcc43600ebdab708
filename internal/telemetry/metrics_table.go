package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPrefix is the default prefix of the operator's own metrics.
const DefaultPrefix = "shell_operator_"

// metricType is the type of a metric.
type metricType string

const (
	counter   metricType = "counter"
	gauge     metricType = "gauge"
	histogram metricType = "histogram"
)

// definition is one metric of the operator. Names, types and labels are a promise to dashboards and alerts.
type definition struct {
	// vendor comes before the prefix; empty for all but a few old names.
	vendor string
	// name comes after the prefix.
	name    string
	typ     metricType
	labels  []string
	buckets bucketSet
	help    string
	// scraped: its series are read at each scrape.
	scraped bool
}

func (d *definition) fullName(prefix string) string { return d.vendor + prefix + d.name }

// bucketSet is a set of upper bounds that histograms share.
type bucketSet struct {
	name   string
	bounds []float64
}

var (
	runBuckets   = bucketSet{"H", []float64{0, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500}}
	queueBuckets = bucketSet{"Q", []float64{0, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5}}
	kubeBuckets  = bucketSet{"K", []float64{0, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}}
	apiBuckets   = bucketSet{"A", []float64{0, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 50}}
	oldBuckets   = bucketSet{"D", prometheus.DefBuckets}
)

var (
	hookLabels    = []string{"hook"}
	bindingLabels = []string{"hook", "binding", "queue"}
	mergeLabels   = []string{"queue_name", "hook"}
	reviewLabels  = []string{"hook", "binding", "result"}
)

// definitions are all metrics of the operator. The documentation is made of them.
var definitions = []definition{
	{name: "live_ticks", typ: counter, scraped: true, help: "Incremented at the start and every 10 seconds."},

	{name: "hooks_reloads_total", typ: counter, labels: []string{"result"},
		help: "Reloads of hooks after changes of files: success, or error, when the previous hooks stay active."},
	{name: "hooks_rejected", typ: gauge, scraped: true,
		help: "1 while the hooks on the disk would not start, because the last reload was rejected; otherwise 0."},
	{name: "leader", typ: gauge,
		help: "1 while this replica leads, 0 while it is a standby."},
	{name: "shard_info", typ: gauge, scraped: true, labels: []string{"shard", "shards", "division"},
		help: "1 if this replica serves the shard, 0 for the other shards."},

	{name: "troubles", typ: gauge, scraped: true, labels: []string{"kind", "hook"},
		help: "What does not work now, or is paused: the list of shell-operator status, by kind and hook."},

	{name: "tasks_queue_length", typ: gauge, scraped: true, labels: []string{"queue"},
		help: "Tasks in a queue, including the running one."},
	{name: "tasks_queue_action_duration_seconds", typ: histogram, labels: []string{"queue_name", "queue_action"}, buckets: queueBuckets,
		help: "Duration of one operation on a queue."},
	{name: "tasks_queue_compaction_operations_total", vendor: "d8_telemetry_", typ: counter, labels: mergeLabels,
		help: "Tasks that were merged into another task of the same hook."},
	{name: "tasks_queue_compaction_tasks_by_hook", vendor: "d8_telemetry_", typ: gauge, scraped: true, labels: mergeLabels,
		help: "Tasks of one hook in a queue, while there are more than 20."},
	{name: "task_wait_in_queue_seconds_total", typ: counter, labels: bindingLabels,
		help: "Time that tasks waited for their runs, including the rate limit."},

	{name: "parked_tasks", typ: gauge, scraped: true, labels: bindingLabels,
		help: "Parked tasks with contexts of a binding: their last attempt has failed."},
	{name: "tasks_parked_total", typ: counter, labels: bindingLabels,
		help: "Tasks that were parked."},
	{name: "parked_contexts_dropped_total", typ: counter, labels: []string{"hook", "binding", "queue", "reason"},
		help: "Parked contexts that were dropped, by reason: superseded, limit, request, reload."},
	{name: "events_replaced_total", typ: counter, labels: bindingLabels,
		help: "Waiting Modified events that were dropped for a later one of their object, because more than --spool-limit waits on the disk."},

	{name: "orphaned_finalizer_objects", typ: gauge, scraped: true, labels: []string{"finalizer", "resource"},
		help: "Objects with a finalizer whose hook or binding is gone."},
	{name: "orphaned_sets", typ: gauge, scraped: true, labels: []string{"hook"},
		help: "Sets of objects of Sync whose hook is gone."},

	{name: "hook_enable_kubernetes_bindings_seconds", typ: gauge, labels: hookLabels,
		help: "Time until all kubernetes bindings of a hook were enabled."},
	{name: "hook_enable_kubernetes_bindings_errors_total", typ: counter, labels: hookLabels,
		help: "Failed attempts to enable the kubernetes bindings of a hook."},
	{name: "hook_enable_kubernetes_bindings_success", typ: gauge, labels: hookLabels,
		help: "1 when the kubernetes bindings of a hook are enabled, 0 after a failed attempt."},

	{name: "hook_run_seconds", typ: histogram, labels: bindingLabels, buckets: runBuckets,
		help: "Duration of a run, including its operations."},
	{name: "hook_run_user_cpu_seconds", typ: histogram, labels: bindingLabels, buckets: runBuckets,
		help: "User CPU time of the processes of a run."},
	{name: "hook_run_sys_cpu_seconds", typ: histogram, labels: bindingLabels, buckets: runBuckets,
		help: "System CPU time of the processes of a run."},
	{name: "hook_run_max_rss_bytes", typ: gauge, labels: bindingLabels,
		help: "Peak memory of the largest process of the last run; on Linux at least that of the operator when it started the hook."},
	{name: "hook_run_errors_total", typ: counter, labels: bindingLabels,
		help: "Failed runs that are retried."},
	{name: "hook_run_allowed_errors_total", typ: counter, labels: bindingLabels,
		help: "Failed runs of bindings with allowFailure."},
	{name: "hook_run_success_total", typ: counter, labels: bindingLabels,
		help: "Successful runs."},
	{name: "hook_own_writes_late_total", typ: counter, labels: hookLabels,
		help: "Runs that have waited 5 s for what an earlier run has written, and begun although a snapshot lacked it."},
	{name: "hook_api_warnings_total", typ: counter, labels: hookLabels,
		help: "Warnings of the API server to requests for a hook: operations, conditions, sets and finalizers. runs show and the log have them."},
	{name: "hook_kubectl_calls_total", typ: counter, labels: []string{"hook", "verb", "way"},
		help: "Calls of kubectl by hooks that call the trimmed one, by command and by the kubectl that carried them out: trimmed or complete."},

	{name: "hook_workers", typ: gauge, labels: hookLabels,
		help: "Workers of a hook with settings.worker: idle, starting and in a run."},
	{name: "hook_worker_starts_total", typ: counter, labels: hookLabels, help: "Starts of workers."},
	{name: "hook_worker_start_seconds", typ: histogram, labels: hookLabels, buckets: runBuckets,
		help: "Time from the start of a worker until it was ready."},

	{name: "hook_events_dropped_total", typ: counter, labels: hookLabels,
		help: "Events of a hook that were not published: more than the limit for one object, or rejected by the API server."},

	{name: "drift_differences_total", typ: counter, labels: []string{"hook", "set", "kind"},
		help: "Objects of sets that differed from what was applied, because another client has changed or deleted them."},

	{name: "admission_reviews_total", typ: counter, labels: reviewLabels,
		help: "Admission reviews by result: allowed or denied by the hook, or failed: the hook gave no verdict."},
	{name: "admission_review_duration_seconds", typ: histogram, labels: []string{"hook", "binding"}, buckets: apiBuckets,
		help: "Time from the request of the API server to the response."},
	{name: "conversion_reviews_total", typ: counter, labels: []string{"crd", "result"},
		help: "Conversion reviews by result: converted, refused by a failedMessage of a hook, or failed."},
	{name: "conversion_review_duration_seconds", typ: histogram, labels: []string{"crd"}, buckets: apiBuckets,
		help: "Time from the request of the API server to the response."},

	{name: "webhook_unknown_paths_total", typ: counter, labels: []string{"server"},
		help: "Reviews for hooks that another replica may have, by server: admission or conversion. The API server repeats them."},

	{name: "hook_metric_series", typ: gauge, scraped: true, labels: hookLabels,
		help: "Current series of a hook on /metrics/hooks."},

	{name: "kube_snapshot_objects", typ: gauge, labels: bindingLabels,
		help: "Objects of a binding."},
	{name: "binding_not_installed", typ: gauge, scraped: true, labels: []string{"hook", "binding"},
		help: "1 for an optional binding whose kind is not installed, 0 for other optional bindings."},
	{name: "kube_jq_filter_duration_seconds", typ: histogram, labels: bindingLabels, buckets: kubeBuckets,
		help: "Duration of jqFilter for one object."},
	{name: "kube_jq_filter_errors_total", typ: counter, labels: bindingLabels,
		help: "Failures of jqFilter, counted per object and attempt."},
	{name: "kube_queue_key_errors_total", typ: counter, labels: bindingLabels,
		help: "Failures of the jq key of a queue, counted per object and attempt; the key of the object is used instead."},
	{name: "kube_event_duration_seconds", typ: histogram, labels: bindingLabels, buckets: kubeBuckets,
		help: "Time until one change of an object is queued."},
	{name: "kubernetes_client_watch_errors_total", typ: counter, labels: []string{"error_type"},
		help: "Watches that ended with an error: expired, unexpected-eof or fail."},
	{name: "binding_monitor_missing_total", typ: counter, labels: []string{"binding"},
		help: "Always absent: a binding cannot lose its watch here."},
	{name: "factory_informer_dead_total", typ: counter, labels: []string{"gvr", "namespace"},
		help: "Always absent: a watch cannot die here."},

	{name: "kubernetes_client_request_result_total", typ: counter, labels: []string{"component", "code", "method", "host"},
		help: "Requests to the API server by status."},
	{name: "kubernetes_client_request_latency_seconds", typ: histogram, labels: []string{"component", "verb", "url"}, buckets: apiBuckets,
		help: "Time until the response of the API server begins."},
	{name: "kubernetes_client_rate_limiter_latency_seconds", typ: histogram, labels: []string{"verb", "url"}, buckets: oldBuckets,
		help: "The same as kubernetes_client_request_latency_seconds, under upstream's misleading name; deprecated."},
}

// define finds a definition. A name that is not there is a bug that every test would find.
func define(name string, typ metricType) *definition {
	for i := range definitions {
		if d := &definitions[i]; d.name == name && d.typ == typ {
			return d
		}
	}
	panic(fmt.Sprintf("telemetry: there is no %s %q", typ, name))
}
