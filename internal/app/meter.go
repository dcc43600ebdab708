package app

import (
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// meter brings what the stages tell to the operator's own metrics.
type meter struct {
	registry *prometheus.Registry
	operator *telemetry.Metrics
	// bindings are the metrics of kubernetes bindings, by their index. The map is replaced, never changed.
	bindings atomic.Pointer[map[*hook.Hook][]*telemetry.Binding]
}

var _ watch.Meter = (*meter)(nil)

func newMeter(o MetricsOptions, tasks func() []telemetry.QueueTasks) (*meter, error) {
	m := &meter{registry: telemetry.NewRegistry()}
	m.bindings.Store(&map[*hook.Hook][]*telemetry.Binding{})
	var err error
	m.operator, err = telemetry.NewMetrics(telemetry.MetricsOptions{
		Registry: m.registry, Prefix: o.Prefix, NoQueueActions: o.NoQueueActions, Queues: tasks,
	})
	return m, err
}

// bind makes the metrics of all kubernetes bindings, beside those that are there. It is not to be called twice at a time.
func (m *meter) bind(hooks []*hook.Hook) {
	all := maps.Clone(*m.bindings.Load())
	for _, h := range hooks {
		if all[h] != nil {
			continue
		}
		for _, k := range h.Kubernetes {
			all[h] = append(all[h], m.operator.Binding(h.Name, k.Name, k.Queue))
		}
	}
	m.bindings.Store(&all)
}

// forget lets go of hooks that have gone.
func (m *meter) forget(gone func(*hook.Hook) bool) {
	all := maps.Clone(*m.bindings.Load())
	maps.DeleteFunc(all, func(h *hook.Hook, bindings []*telemetry.Binding) bool {
		if !gone(h) {
			return false
		}
		for _, b := range bindings {
			b.Objects(0)
		}
		return true
	})
	m.bindings.Store(&all)
}

// binding is nil when the binding has gone: its last objects may still be on their way.
func (m *meter) binding(h *hook.Hook, index int) *telemetry.Binding {
	if all := (*m.bindings.Load())[h]; index < len(all) {
		return all[index]
	}
	return nil
}

// count counts the requests of a client.
func (m *meter) count(config *rest.Config, component string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return m.operator.Transport(component, next) })
}

func (m *meter) objects(h *hook.Hook, index, n int) {
	if b := m.binding(h, index); b != nil {
		b.Objects(n)
	}
}

func (m *meter) Filtered(h *hook.Hook, index int, took time.Duration) {
	if b := m.binding(h, index); b != nil {
		b.Filtered(took)
	}
}

func (m *meter) Handled(h *hook.Hook, index int, took time.Duration) {
	if b := m.binding(h, index); b != nil {
		b.Handled(took)
	}
}

func (m *meter) WatchFailed(reason string) { m.operator.WatchFailed(reason) }

func (m *meter) OnAction(queue, action string, took time.Duration) {
	m.operator.QueueAction(queue, action, took)
}

func (m *meter) RunEnded(r run.Report) {
	if r.Merged > 0 {
		m.operator.Merged(r.Queue, r.Hook.Name, r.Merged)
	}
	m.operator.RunEnded(telemetry.Run{
		Hook: r.Hook.Name, Binding: r.Binding, Queue: r.Queue, Waited: r.Waited, Wall: r.Wall,
		Process: r.Usage.Wall > 0, User: r.Usage.User, System: r.Usage.System, MaxRSS: r.Usage.MaxRSS,
		Failed: r.Err != nil, Allowed: r.Allowed,
	})
}

// tasks counts the tasks in all queues, for a scrape.
func (op *operator) tasks() []telemetry.QueueTasks {
	if op.queues == nil {
		return nil
	}
	var all []telemetry.QueueTasks
	op.queues.Visit(func(name string, tasks []queue.Task) {
		q := telemetry.QueueTasks{Queue: name, Tasks: len(tasks), Hooks: map[string]int{}}
		for _, t := range tasks {
			if t, ok := t.(task); ok {
				q.Hooks[t.Hook().Name]++
			}
		}
		all = append(all, q)
	})
	return all
}
