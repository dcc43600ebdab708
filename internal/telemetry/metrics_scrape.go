package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// QueueTasks is what is in a queue at one moment.
type QueueTasks struct {
	Queue string
	// Tasks counts all of them, Hooks those of each hook.
	Tasks int
	Hooks map[string]int
}

// ParkedTasks are the parked tasks with contexts of a binding.
type ParkedTasks struct {
	Hook, Binding, Queue string
	Tasks                int
}

// OrphanedFinalizer is a finalizer whose hook or binding is gone.
type OrphanedFinalizer struct {
	Finalizer, Resource string
	// Objects is the number of objects that have it.
	Objects int
}

// TroubleCount counts the troubles of a kind and a hook; the hook is empty for those of the operator.
type TroubleCount struct {
	Kind, Hook string
	Troubles   int
}

// crowd is how many tasks of one hook in a queue are worth a series.
const crowd = 20

// tickPeriod is the time between two live ticks.
const tickPeriod = 10 * time.Second

// scraped are metrics that are collected at a scrape, so that an idle operator has nothing to do.
type scraped struct {
	opts                  MetricsOptions
	started               time.Time
	ticks, length, byHook *prometheus.Desc
	series, parked        *prometheus.Desc
	orphans, orphanedSets *prometheus.Desc
	troubles              *prometheus.Desc
}

func newScraped(o MetricsOptions) *scraped {
	describe := func(name string, typ metricType) *prometheus.Desc {
		d := define(name, typ)
		return prometheus.NewDesc(d.fullName(o.Prefix), d.help, d.labels, nil)
	}
	return &scraped{
		opts: o, started: o.now(),
		ticks:  describe("live_ticks", counter),
		length: describe("tasks_queue_length", gauge),
		byHook: describe("tasks_queue_compaction_tasks_by_hook", gauge),
		series: describe("hook_metric_series", gauge),
		parked: describe("parked_tasks", gauge),

		orphans:      describe("orphaned_finalizer_objects", gauge),
		orphanedSets: describe("orphaned_sets", gauge),
		troubles:     describe("troubles", gauge),
	}
}

func (s *scraped) Describe(to chan<- *prometheus.Desc) {
	to <- s.ticks
	to <- s.length
	to <- s.byHook
	to <- s.series
	to <- s.parked
	to <- s.orphans
	to <- s.orphanedSets
	to <- s.troubles
}

func (s *scraped) Collect(to chan<- prometheus.Metric) {
	ticks := 1 + s.opts.now().Sub(s.started)/tickPeriod
	to <- prometheus.MustNewConstMetric(s.ticks, prometheus.CounterValue, float64(ticks))
	if s.opts.HookSeries != nil {
		for hook, n := range s.opts.HookSeries() {
			to <- prometheus.MustNewConstMetric(s.series, prometheus.GaugeValue, float64(n), valid(hook))
		}
	}
	if s.opts.Parked != nil {
		for _, p := range s.opts.Parked() {
			to <- prometheus.MustNewConstMetric(s.parked, prometheus.GaugeValue, float64(p.Tasks), valid(p.Hook), p.Binding, p.Queue)
		}
	}
	if s.opts.Orphans != nil {
		for _, o := range s.opts.Orphans() {
			to <- prometheus.MustNewConstMetric(s.orphans, prometheus.GaugeValue, float64(o.Objects), o.Finalizer, o.Resource)
		}
	}
	if s.opts.OrphanedSets != nil {
		for hook, n := range s.opts.OrphanedSets() {
			to <- prometheus.MustNewConstMetric(s.orphanedSets, prometheus.GaugeValue, float64(n), valid(hook))
		}
	}
	if s.opts.Troubles != nil {
		for _, t := range s.opts.Troubles() {
			to <- prometheus.MustNewConstMetric(s.troubles, prometheus.GaugeValue, float64(t.Troubles), t.Kind, valid(t.Hook))
		}
	}
	if s.opts.Queues == nil {
		return
	}
	for _, q := range s.opts.Queues() {
		to <- prometheus.MustNewConstMetric(s.length, prometheus.GaugeValue, float64(q.Tasks), q.Queue)
		for hook, n := range q.Hooks {
			if n > crowd {
				to <- prometheus.MustNewConstMetric(s.byHook, prometheus.GaugeValue, float64(n), q.Queue, valid(hook))
			}
		}
	}
}
