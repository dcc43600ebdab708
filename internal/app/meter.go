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
// a removed binding are dropped: its last objects may still be on their way. Operator has the metrics without a method here.
type meter struct {
	Registry *prometheus.Registry
	Operator *telemetry.Metrics
	// bindings are the metrics of kubernetes bindings, by their index. The map is replaced, never changed.
	bindings atomic.Pointer[map[*hook.Hook][]*telemetry.Binding]
}

// newMeter makes the operator's own metrics in a registry of its own, which o need not name.
func newMeter(o telemetry.MetricsOptions) (*meter, error) {
	m := &meter{Registry: telemetry.NewRegistry()}
	o.Registry = m.Registry
	m.bindings.Store(&map[*hook.Hook][]*telemetry.Binding{})
	var err error
	m.Operator, err = telemetry.NewMetrics(o)
	return m, err
}

// series are the labels of the metrics of a binding. An empty queue stands for all: a Synchronization may run in another one.
type series struct{ hook, binding, queue string }

func seriesOf(hooks map[*hook.Hook][]*telemetry.Binding) (names map[string]bool, bindings map[series]bool) {
	names, bindings = map[string]bool{}, map[series]bool{}
	for h := range hooks {
		names[h.Name] = true
		for _, b := range h.Bindings() {
			bindings[series{h.Name, b.Name, b.Queue}], bindings[series{h.Name, b.Name, ""}] = true, true
		}
	}
	return names, bindings
}

func crdsOf(hooks map[*hook.Hook][]*telemetry.Binding) map[string]bool {
	crds := map[string]bool{}
	for h := range hooks {
		for _, c := range h.Conversions {
			crds[c.CRDName] = true
		}
	}
	return crds
}

// SetHooks sets the hooks that have metrics. The series of hooks and bindings that no longer exist are dropped. It is not to
// be called concurrently.
func (m *meter) SetHooks(hooks []*hook.Hook) {
	before, now := *m.bindings.Load(), map[*hook.Hook][]*telemetry.Binding{}
	for _, h := range hooks {
		bindings, known := before[h]
		if !known {
			for _, k := range h.Kubernetes {
				bindings = append(bindings, m.Operator.Binding(h.Name, k.Name, k.Queue))
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
	names, bindings := seriesOf(now)
	goneNames, goneBindings := seriesOf(before)
	for l := range goneBindings {
		if !bindings[l] {
			m.Operator.ForgetBinding(l.hook, l.binding, l.queue)
		}
	}
	for name := range goneNames {
		if !names[name] {
			m.Operator.ForgetHook(name)
		}
	}
	crds := crdsOf(now)
	for crd := range crdsOf(before) {
		if !crds[crd] {
			m.Operator.ForgetCRD(crd)
		}
	}
}

// binding is nil when the binding has been removed: its last objects may still be on their way.
func (m *meter) binding(h *hook.Hook, index int) *telemetry.Binding {
	if all := (*m.bindings.Load())[h]; index < len(all) {
		return all[index]
	}
	return nil
}

// Count counts the requests of a client.
func (m *meter) Count(config *rest.Config, component string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return m.Operator.Transport(component, next) })
}

// Objects receives the number of objects of a kubernetes binding.
func (m *meter) Objects(h *hook.Hook, index, n int) {
	if b := m.binding(h, index); b != nil {
		b.Objects(n)
	}
}

// Filtered receives the duration of a filter.
func (m *meter) Filtered(h *hook.Hook, index int, took time.Duration) {
	if b := m.binding(h, index); b != nil {
		b.Filtered(took)
	}
}

// FilterFailed counts a failure of a binding's filter.
func (m *meter) FilterFailed(h *hook.Hook, index int, _ error) {
	if b := m.binding(h, index); b != nil {
		b.FilterFailed()
	}
}

// KeyFailed counts a failure of a jq key.
func (m *meter) KeyFailed(h *hook.Hook, index int, _ error) {
	if b := m.binding(h, index); b != nil {
		b.KeyFailed()
	}
}

// Handled receives the time until a change was queued, or found to be none.
func (m *meter) Handled(h *hook.Hook, index int, took time.Duration) {
	if b := m.binding(h, index); b != nil {
		b.Handled(took)
	}
}

// ShardDropped receives the objects that belong to other shards.
func (m *meter) ShardDropped(kind string, n int) { m.Operator.ShardDropped(kind, n) }

// WatchFailed receives each list or watch that failed.
func (m *meter) WatchFailed(reason string) { m.Operator.WatchFailed(reason) }

// QueueEnded drops the series of a queue.
func (m *meter) QueueEnded(queue string) { m.Operator.ForgetQueue(queue) }

// OnAction receives the duration of an operation on a queue.
func (m *meter) OnAction(queue, action string, took time.Duration) {
	m.Operator.QueueAction(queue, action, took)
}

// Workers receives the number of workers of a hook, Started each start. Those of a hook that is gone end later than its series.
func (m *meter) Workers(hook string, n int) {
	if m.known(hook) {
		m.Operator.Workers(hook, n)
	}
}

func (m *meter) Started(hook, reason string, took time.Duration) {
	if m.known(hook) {
		m.Operator.WorkerStarted(hook, reason, took)
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
		m.Operator.Merged(r.Queue, r.Hook.Name, r.Merged)
	}
	for _, c := range r.Kubectl {
		m.Operator.KubectlCalled(r.Hook.Name, c.Verb, c.Way, c.Count)
	}
	m.Operator.RunEnded(telemetry.Run{
		Hook: r.Hook.Name, Binding: r.Binding, Queue: r.Queue, Waited: r.Waited, Wall: r.Wall,
		Process: r.Usage.Wall > 0, User: r.Usage.User, System: r.Usage.System, MaxRSS: r.Usage.MaxRSS,
		Failed: r.Err != nil, Allowed: r.Allowed,
	})
}
