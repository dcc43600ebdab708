package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/selectors"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// Simulation has kubernetes bindings over objects that its caller provides, for tests of hooks. It sends no request. Events have reached
// the Sink when Set and Remove return. Filters, comparisons, events and snapshots work as in a Watcher; only the selectors, which the API
// server evaluates otherwise, are evaluated here.
//
// It is not safe for concurrent use.
type Simulation struct {
	bindingSet
	opts    SimulationOptions
	objects map[simulatedKey]*selectors.Decoded
	order   []*simulatedBinding
}

// SimulationOptions of a Simulation. All but Excluded, KeepManagedFields and Guard are required.
type SimulationOptions struct {
	JQ    *jq.Compiler
	Sink  Sink
	Meter Meter
	// Resolve finds the resource of a binding's kind.
	Resolve func(apiVersion, kind string) (kube.Resource, error)
	// Excluded receives why a change is no event of a binding of its kind.
	Excluded func(h *hook.Hook, index int, reason string)
	// KeepManagedFields is the default of bindings.
	KeepManagedFields bool
	// Guard returns the guard of a binding that has one, as a Settler.
	Guard func(*Shelf) Guard
}

type simulatedKey struct {
	schema.GroupResource
	namespace, name string
}

type simulatedBinding struct {
	monitor            *monitor
	stream             *stream.Manual
	resource           kube.Resource
	labels, namespaces labels.Selector
	fields             fields.Selector
}

// NewSimulation returns a Simulation without objects.
func NewSimulation(opts SimulationOptions) *Simulation {
	if opts.Excluded == nil {
		opts.Excluded = func(*hook.Hook, int, string) {}
	}
	return &Simulation{opts: opts, objects: map[simulatedKey]*selectors.Decoded{}, bindingSet: bindingSet{monitors: map[address]*monitor{}}}
}

// Enable starts the bindings of a hook. Their initial lists have the objects so far; events are held until Unlock or Announce.
func (s *Simulation) Enable(ctx context.Context, h *hook.Hook) error {
	for i := range h.Kubernetes {
		b, err := s.binding(h, i)
		if h.Kubernetes[i].Optional && errors.As(err, new(*kube.UnknownKindError)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("binding %q: %w", h.Kubernetes[i].Name, err)
		}
		s.monitors[b.monitor.address] = b.monitor
		s.order = append(s.order, b)
		if err := s.list(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// tracks reports whether an object is in the binding or waits for the guard.
func (m *monitor) tracks(key string) bool {
	_, has := m.items.Get(key)
	return has || m.guard != nil && m.guard.Lacks(key)
}

func (s *Simulation) binding(h *hook.Hook, index int) (*simulatedBinding, error) {
	k := &h.Kubernetes[index]
	b := &simulatedBinding{
		monitor: newMonitor(h, index, s.opts.Sink, s.opts.Meter, slog.New(slog.DiscardHandler)),
	}
	b.monitor.keepManagedFields = *cmp.Or(k.KeepManagedFields, &s.opts.KeepManagedFields)
	b.monitor.excluded = func(reason string) { s.opts.Excluded(h, index, reason) }
	b.stream = stream.NewManual(b.monitor.keepManagedFields)
	var err error
	if b.resource, err = s.opts.Resolve(k.APIVersion, k.Kind); err != nil {
		return nil, err
	}
	if b.labels, err = labels.Parse(k.Labels); err != nil {
		return nil, err
	}
	if b.fields, err = fields.ParseSelector(k.Fields); err != nil {
		return nil, err
	}
	if b.namespaces, err = labels.Parse(k.Namespaces.Labels); err != nil {
		return nil, err
	}
	if err := b.monitor.compile(s.opts.JQ); err != nil {
		return nil, err
	}
	if s.opts.Guard != nil && k.Guarded() {
		b.monitor.guard = s.opts.Guard(&Shelf{m: b.monitor})
	}
	b.monitor.arrange(false, false)
	b.monitor.setResource(b.resource)
	sub := &stream.Subscription{Consumer: b.monitor}
	b.monitor.expect(sub, source{})
	b.stream.Join(sub)
	return b, nil
}

// Set adds an object, or replaces it. The JSON has its kind, version, name, uid and resource version.
func (s *Simulation) Set(ctx context.Context, res kube.Resource, raw []byte) error {
	return s.changed(ctx, res, raw, false)
}

// Remove removes an object; raw is its last state.
func (s *Simulation) Remove(ctx context.Context, res kube.Resource, raw []byte) error {
	return s.changed(ctx, res, raw, true)
}

// changed delivers a change to the bindings of the object's kind, and to those that select namespaces by label if it is one.
func (s *Simulation) changed(ctx context.Context, res kube.Resource, raw []byte, deleted bool) error {
	o := &selectors.Decoded{Raw: raw}
	if err := json.Unmarshal(raw, &o.Tree); err != nil {
		return err
	}
	key := simulatedKey{res.GroupResource(), o.Get("metadata.namespace"), o.Get("metadata.name")}
	if s.objects[key] = o; deleted {
		delete(s.objects, key)
	}
	for _, b := range s.order {
		k := b.monitor.binding
		if key.GroupResource == (schema.GroupResource{Resource: "namespaces"}) && k.Namespaces.ByLabels && b.resource.Namespaced {
			if err := s.list(ctx, b); err != nil {
				return err
			}
		}
		if b.resource.GroupResource() != key.GroupResource {
			continue
		}
		reason := s.excluded(b, key, o)
		leaves := reason != "" && !deleted && b.monitor.tracks(stream.KeyOf(key.namespace, key.name)) // which a watch reports as a deletion
		if reason == "" || deleted || leaves {
			if err := b.delivered(ctx, b.stream.DeliverChange(ctx, raw, deleted || leaves)); err != nil {
				return err
			}
		}
		if reason != "" && !leaves {
			s.opts.Excluded(b.monitor.hook, b.monitor.index, reason)
		}
	}
	return nil
}

// list delivers all objects of a binding. Objects missing from the list are delivered as Deleted.
func (s *Simulation) list(ctx context.Context, b *simulatedBinding) error {
	var items [][]byte
	for key, o := range s.objects {
		if b.resource.GroupResource() == key.GroupResource && s.excluded(b, key, o) == "" {
			items = append(items, o.Raw)
		}
	}
	list := slices.Concat([]byte(`{"items":[`), bytes.Join(items, []byte(",")), []byte(`]}`))
	return cmp.Or(b.delivered(ctx, b.stream.DeliverList(ctx, bytes.NewReader(list))), ctx.Err())
}

// delivered waits until the binding has processed a delivery, unless that has failed.
func (b *simulatedBinding) delivered(ctx context.Context, err error) error {
	if err == nil {
		b.stream.Wait()
		if guard, ok := b.monitor.guard.(Settler); ok {
			guard.Settle(ctx)
		}
	}
	return err
}

// excluded returns the selector of a binding that does not match an object of its kind, or "".
func (s *Simulation) excluded(b *simulatedBinding, key simulatedKey, o *selectors.Decoded) string {
	k := b.monitor.binding
	switch {
	case len(k.Names) > 0 && !slices.Contains(k.Names, key.name):
		return fmt.Sprintf("nameSelector does not have the name %q", key.name)
	case !b.labels.Matches(o.Labels()):
		return fmt.Sprintf("labelSelector %q does not match its labels", k.Labels)
	case !b.fields.Matches(o):
		return fmt.Sprintf("fieldSelector %q does not match", k.Fields)
	case !b.monitor.division.stream.Has(&stream.Object{UID: o.Get("metadata.uid"), Namespace: key.namespace, Name: key.name}):
		return "another shard has the object"
	case !b.resource.Namespaced:
		return ""
	case len(k.Namespaces.Names) > 0 && !slices.Contains(k.Namespaces.Names, key.namespace):
		return fmt.Sprintf("namespace.nameSelector does not have the namespace %q", key.namespace)
	case k.Namespaces.ByLabels && !b.namespaces.Matches(s.namespaceLabels(key.namespace)):
		return fmt.Sprintf("namespace.labelSelector %q does not match the labels of namespace %q", k.Namespaces.Labels, key.namespace)
	}
	return ""
}

// namespaceLabels returns the labels of a namespace; one that is not among the objects has the label that every namespace has.
func (s *Simulation) namespaceLabels(name string) labels.Set {
	own := labels.Set{"kubernetes.io/metadata.name": name}
	if o := s.objects[simulatedKey{schema.GroupResource{Resource: "namespaces"}, "", name}]; o != nil {
		return labels.Merge(o.Labels(), own)
	}
	return own
}
