package app

import (
	"net/http"
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
	// bindings are the metrics of kubernetes bindings, by their index. It does not change after bind.
	bindings map[*hook.Hook][]*telemetry.Binding
}

var _ watch.Meter = (*meter)(nil)

func newMeter(o MetricsOptions, tasks func() []telemetry.QueueTasks) (*meter, error) {
	m := &meter{registry: telemetry.NewRegistry(), bindings: map[*hook.Hook][]*telemetry.Binding{}}
	var err error
	m.operator, err = telemetry.NewMetrics(telemetry.MetricsOptions{
		Registry: m.registry, Prefix: o.Prefix, NoQueueActions: o.NoQueueActions, Queues: tasks,
	})
	return m, err
}

// bind makes the metrics of all kubernetes bindings.
func (m *meter) bind(hooks []*hook.Hook) {
	for _, h := range hooks {
		for _, k := range h.Kubernetes {
			m.bindings[h] = append(m.bindings[h], m.operator.Binding(h.Name, k.Name, k.Queue))
		}
	}
}

// count counts the requests of a client.
func (m *meter) count(config *rest.Config, component string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return m.operator.Transport(component, next) })
}

func (m *meter) objects(h *hook.Hook, index, n int) { m.bindings[h][index].Objects(n) }

func (m *meter) Filtered(h *hook.Hook, index int, took time.Duration) {
	m.bindings[h][index].Filtered(took)
}

func (m *meter) Handled(h *hook.Hook, index int, took time.Duration) {
	m.bindings[h][index].Handled(took)
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
