package app

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// meter converts reports of the stages to the operator's own metrics. Nothing blocks: metrics are counted where things happen. Reports for
// a removed binding are dropped: its last objects may still be on their way.
type meter struct {
	*telemetry.Metrics
	Registry *prometheus.Registry
	// bindings are the metrics of kubernetes bindings, by their index. The map is replaced, never changed.
	bindings atomic.Pointer[map[*hook.Hook][]*telemetry.Binding]
}

// newMeter makes the operator's own metrics in a registry of its own, which o need not name.
func newMeter(o telemetry.MetricsOptions) (*meter, error) {
	m := &meter{Registry: telemetry.NewRegistry()}
	o.Registry = m.Registry
	m.bindings.Store(&map[*hook.Hook][]*telemetry.Binding{})
	var err error
	m.Metrics, err = telemetry.NewMetrics(o)
	return m, err
}

// seriesOf are the series of hooks, of their bindings and of their CRDs.
func seriesOf(hooks map[*hook.Hook][]*telemetry.Binding) map[telemetry.Series]bool {
	all := map[telemetry.Series]bool{}
	for h := range hooks {
		all[telemetry.Series{{"hook", h.Name}}] = true
		for _, b := range h.Bindings() {
			// A Synchronization may run in another queue.
			all[telemetry.Series{{"hook", h.Name}, {"binding", b.Name}}] = true
			all[telemetry.Series{{"hook", h.Name}, {"binding", b.Name}, {"queue", b.Queue}}] = true
		}
		for _, c := range h.Conversions {
			all[telemetry.Series{{"crd", c.CRDName}}] = true
		}
	}
	return all
}

// SetHooks sets the hooks that have metrics. The series of hooks and bindings that no longer exist are dropped. It is not to
// be called concurrently.
func (m *meter) SetHooks(hooks []*hook.Hook) {
	before, now := *m.bindings.Load(), map[*hook.Hook][]*telemetry.Binding{}
	for _, h := range hooks {
		bindings, known := before[h]
		if !known {
			for _, k := range h.Kubernetes {
				bindings = append(bindings, m.Binding(h.Name, k.Name, k.Queue))
			}
		}
		now[h] = bindings
	}
	m.bindings.Store(&now)
	for h, bindings := range before {
		if _, stays := now[h]; !stays {
			for _, b := range bindings {
				b.Objects(0)
			}
		}
	}
	stay := seriesOf(now)
	for series := range seriesOf(before) {
		if !stay[series] {
			m.Forget(series)
		}
	}
}

// of measures a kubernetes binding, unless it has been removed: its last objects may still be on their way.
func (m *meter) of(h *hook.Hook, index int, measure func(*telemetry.Binding)) {
	if all := (*m.bindings.Load())[h]; index < len(all) {
		measure(all[index])
	}
}

// Count counts the requests of a client.
func (m *meter) Count(config *rest.Config, component string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return m.Transport(component, next) })
}

// Objects receives the number of objects of a kubernetes binding, Filtered the duration of a filter, Handled the time until a change was
// queued, or found to be none. FilterFailed and KeyFailed count failures.
func (m *meter) Objects(h *hook.Hook, index, n int) {
	m.of(h, index, func(b *telemetry.Binding) { b.Objects(n) })
}

func (m *meter) Filtered(h *hook.Hook, index int, took time.Duration) {
	m.of(h, index, func(b *telemetry.Binding) { b.Filtered(took) })
}

func (m *meter) Handled(h *hook.Hook, index int, took time.Duration) {
	m.of(h, index, func(b *telemetry.Binding) { b.Handled(took) })
}

func (m *meter) FilterFailed(h *hook.Hook, index int, _ error) {
	m.of(h, index, (*telemetry.Binding).FilterFailed)
}

func (m *meter) KeyFailed(h *hook.Hook, index int, _ error) {
	m.of(h, index, (*telemetry.Binding).KeyFailed)
}

// Workers receives the number of workers of a hook, Started each start. Those of a hook that is gone end later than its series.
func (m *meter) Workers(hook string, n int) {
	if m.known(hook) {
		m.Metrics.Workers(hook, n)
	}
}

func (m *meter) Started(hook string, took time.Duration) {
	if m.known(hook) {
		m.WorkerStarted(hook, took)
	}
}

func (m *meter) known(name string) bool {
	for h := range *m.bindings.Load() {
		if h.Name == name {
			return true
		}
	}
	return false
}

// RunEnded receives each run.
func (m *meter) RunEnded(r run.Report) {
	if r.Merged > 0 {
		m.Merged(r.Queue, r.Hook.Name, r.Merged)
	}
	for _, c := range r.Kubectl {
		m.KubectlCalled(r.Hook.Name, c.Verb, c.Way, c.Count)
	}
	m.Metrics.RunEnded(telemetry.Run{
		Hook: r.Hook.Name, Binding: r.Binding, Queue: r.Queue, Waited: r.Waited, Wall: r.Wall,
		Process: r.Usage.Wall > 0, User: r.Usage.User, System: r.Usage.System, MaxRSS: r.Usage.MaxRSS,
		Failed: r.Err != nil, Allowed: r.Allowed,
	})
}
