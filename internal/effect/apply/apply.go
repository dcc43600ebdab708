// Package apply applies what a run returns: it checks all of it, changes the cluster, and then the metrics. For requests that wait, a
// Responder runs the hook and returns its answer.
//
// Callers may rely on this:
//   - Everything is checked first. If any document of any file is invalid, nothing is applied.
//   - Metrics are applied only if all changes of the cluster succeeded.
//   - Of a failed run only changes with ignoreHookError are made.
//   - Errors and reports name objects and have no values of them.
//   - Sent has the permissions for what was sent; its memory is bounded.
package apply

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/effect/patch"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// Settings of the changes of the cluster.
type Settings struct {
	// QPS and Burst limit the requests; a negative QPS means no limit. Timeout ends one; 0 means none.
	QPS     float32
	Burst   int
	Timeout time.Duration
	// DryRun makes the API server check everything and change nothing.
	DryRun bool
}

// Client returns the configuration of a client with rate limits of its own, so that many changes do not delay watches.
func (s Settings) Client(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = s.QPS, s.Burst, s.Timeout
	return config
}

// Options of Effects. Tracer may be nil: then there are no traces.
type Options struct {
	Settings
	// Instance names the installation, in the field managers of conditions and sets. Namespace is the operator's own, Version its version.
	Instance, Namespace, Version string
	// Events publishes the Events of hooks. If it is nil, Flush publishes them.
	Events *kubeevent.Recorder
	// Restores are about members of sets that other clients change.
	Restores Restores
	// DeleteTimeout limits how long a Delete waits until the object is gone; 0 means the default.
	DeleteTimeout time.Duration
	// Now is the clock of conditions; nil means time.Now.
	Now func() time.Time
	// Client is the client of Settings.Client, possibly wrapped. Simulated: it reaches no API server.
	Client    *rest.Config
	Simulated bool
	Filters   *jq.Compiler
	// RestartCounters resets counters and histograms with each run that names their group.
	RestartCounters bool
	// MaxBytes is the maximum of what the series of a hook take in memory; 0 means no limit.
	MaxBytes int
	// Shard, with shards, returns the one of this replica, which decides what sets a run may have.
	Shard func() shard.Shard
	// Warned, if set, is called for each warning of the API server to a request for a hook.
	Warned func(hook string)
	Tracer trace.Tracer
	Log    *slog.Logger
}

// Restores are about members of sets that other clients change. The zero value restores none.
type Restores struct {
	// Watch is the configuration of a client that watches, without a time limit of requests.
	Watch *rest.Config
	// Active reports whether a hook runs.
	Active func(hook string) bool
	// Differs is called for each member that was changed.
	Differs func(hook, set, kind string)
}

// Effects apply what hooks return.
type Effects struct {
	// Metrics has the metrics of hooks.
	Metrics  *metric.Store
	o        Options
	patches  *patch.Applier
	sets     *applyset.Applier
	resolver *kube.Resolver
}

var _ run.Effects = (*Effects)(nil)

// New returns Effects. It sends no request.
func New(o Options) (*Effects, error) {
	client, err := kube.NewClient(o.Client)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for patches: %w", err)
	}
	if o.Events == nil {
		o.Events = kubeevent.New(kubeevent.Options{Client: client, Instance: o.Instance, Log: o.Log})
	}
	if o.Warned == nil {
		o.Warned = func(string) {}
	}
	record := func(hook string, p *effect.Patch) {
		o.Events.Record(hook, kubeevent.Event{
			Regarding: kubeevent.Reference{APIVersion: p.APIVersion, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name,
				UID: types.UID(p.Event.UID)},
			Type: p.Event.Type, Reason: p.Event.Reason, Action: p.Event.Action, Note: p.Event.Note,
		})
	}
	resolver := kube.NewResolver(client)
	resolver.Simulated = o.Simulated
	of := applyset.Options{
		Client: client, Resolver: resolver, Instance: o.Instance, Namespace: o.Namespace, Version: o.Version, DryRun: o.DryRun,
		Log: o.Log, Now: o.Now, Active: o.Restores.Active, Differs: o.Restores.Differs,
		Warned: func(log *slog.Logger, hook, about, text string) { patch.LogWarning(log, about, text); o.Warned(hook) },
		Warn: func(hook string, about effect.Owner, reason, note string) {
			record(hook, &effect.Patch{APIVersion: about.APIVersion, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name,
				Event: &effect.Event{UID: about.UID, Type: "Warning", Reason: reason, Action: "RestoreObject", Note: note}})
		},
	}
	if o.Restores.Watch != nil {
		if of.Watch, err = kube.NewClient(o.Restores.Watch); err != nil {
			return nil, fmt.Errorf("cannot make a client for watches of sets: %w", err)
		}
	}
	sets := applyset.New(of)
	return &Effects{
		o: o, sets: sets, resolver: resolver,
		Metrics: metric.New(metric.Options{Log: o.Log, Restart: o.RestartCounters, MaxBytes: o.MaxBytes}),
		patches: patch.New(patch.Options{
			Client: client, Resolver: resolver, Filters: o.Filters,
			DryRun: o.DryRun, DeleteTimeout: o.DeleteTimeout, Instance: o.Instance, Record: record, Sync: sets.Sync, Now: o.Now, Warned: o.Warned,
		}),
	}, nil
}

// Restore restores members of sets until ctx ends.
func (e *Effects) Restore(ctx context.Context) { e.sets.Run(ctx) }

// Sent returns what Applier.Sent of package patch does.
func (e *Effects) Sent() (all []Sent, dropped int) { return e.patches.Sent() }

// Sent is a kind of operations that the operator has sent, Run the run of patches.
type (
	Sent = patch.Sent
	Run  = patch.Run
)

// Sets are the sets of objects.
func (e *Effects) Sets() *applyset.Applier { return e.sets }

// Flush publishes the Events so far. It is for callers that have no Recorder which does.
func (e *Effects) Flush(ctx context.Context) { e.o.Events.Flush(ctx) }

// Check implements run.Effects.
func (e *Effects) Check(h *hook.Hook, out run.Outputs) error {
	_, err := Check(h, out, e.o.Filters)
	return err
}

// Apply applies what a successful run returns.
func (e *Effects) Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn,
	identify run.Identify) ([]run.Change, error) {
	requests, err := Check(h, out, e.o.Filters)
	for _, w := range requests.Warnings {
		log.Warn("A metric operation is ignored", "warning", w.String())
	}
	if err != nil {
		return nil, err
	}
	var finalizers []string
	for i := range h.Kubernetes {
		if name := h.Kubernetes[i].Finalizer; name != "" {
			finalizers = append(finalizers, name)
		}
	}
	for _, p := range requests.Patches {
		if p.Set != nil {
			p.Set.Finalizers = finalizers
		}
	}
	if e.o.Shard != nil {
		if err := checkShard(e.o.Shard(), h, requests.Patches, turn == nil, identify); err != nil { // a run with a turn is not for a request
			return nil, fmt.Errorf("%s FAILED: %w", h.Name, err)
		}
	}
	done, err := e.Change(ctx, log, Run{Hook: h.Name, Identify: identify}, requests.Patches, turn)
	if err != nil {
		return changes(requests.Patches, done), fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	if len(requests.Metrics) > 0 {
		e.Metrics.Apply(h.Name, requests.Metrics)
	}
	return changes(requests.Patches, done), nil
}

// ApplyFailed applies the changes of a failed run that have ignoreHookError: they report the failure in a status.
func (e *Effects) ApplyFailed(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs, turn *run.Turn,
	identify run.Identify) ([]run.Change, error) {
	patches, err := operations(out, e.o.Filters)
	if err != nil {
		log.Warn("The patches of a failed hook are ignored", "error", err.Error())
		return nil, nil
	}
	var kept []effect.Patch
	for _, p := range patches {
		if p.IgnoreHookError {
			kept = append(kept, p)
		}
	}
	done, err := e.Change(ctx, log, Run{Hook: h.Name, Identify: identify}, kept, turn)
	if err != nil {
		err = fmt.Errorf("and its failure cannot be reported: %w", err)
	}
	return changes(kept, done), err
}

// changes returns the patches without values. Without progress none was sent.
func changes(patches []effect.Patch, done *patch.Progress) []run.Change {
	list := make([]run.Change, len(patches))
	for i, p := range patches {
		list[i] = run.Change{Operation: p.Operation.String(), Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Outcome: run.NotSent}
		if done != nil {
			list[i].Outcome, list[i].Warnings = run.Applied, done.Warnings(&patches[i])
			if done.Failed(&patches[i]) {
				list[i].Outcome = run.Failed
			}
		}
		if p.Subresource != "" {
			list[i].Kind += "/" + p.Subresource
		}
		if p.Set != nil && p.Set.Owner != nil {
			list[i].Kind, list[i].Namespace, list[i].Name = p.Set.Owner.Kind, p.Set.Owner.Namespace, p.Set.Owner.Name
		}
	}
	return list
}

// objects returns names that are equal if two patches may change the same object. The operator's own namespace is the default of sets.
// Patches of one name and different kinds are distinguished by the API server only: a kind has several spellings.
func objects(patches []effect.Patch, own string, unscoped map[kind]bool) (names []string) {
	add := func(k kind, namespace, name string) {
		if unscoped[k] {
			namespace = ""
		}
		names = append(names, cmp.Or(namespace, "default")+"/"+name)
	}
	for i := range patches {
		p := &patches[i]
		if p.Set == nil {
			if p.Name != "" {
				add(kind{p.APIVersion, p.Kind}, p.Namespace, p.Name)
			}
			continue
		}
		namespace, owner := own, ""
		if o := p.Set.Owner; o != nil {
			namespace, owner = cmp.Or(o.Namespace, own), o.Namespace+"/"+o.Name
		}
		for j := range p.Set.Objects {
			o := &p.Set.Objects[j]
			add(kind{o.APIVersion, o.Kind}, cmp.Or(o.Namespace, namespace), o.Name)
		}
		names = append(names, "set "+p.Set.Name+" of "+owner)
	}
	return names
}

// kind is as a hook has written it.
type kind struct{ apiVersion, kind string }

// unscoped returns the kinds of the patches whose objects have no namespace, whatever namespace the hook wrote. A kind that the API server
// does not know yet counts as namespaced.
func (e *Effects) unscoped(ctx context.Context, patches []effect.Patch) map[kind]bool {
	known := map[kind]bool{}
	ask := func(apiVersion, name string) {
		k := kind{apiVersion, name}
		if _, ok := known[k]; ok || name == "" {
			return
		}
		res, err := e.resolver.Resolve(ctx, apiVersion, name)
		known[k] = err == nil && !res.Namespaced
	}
	for i := range patches {
		p := &patches[i]
		if p.Set == nil {
			ask(p.APIVersion, p.Kind)
			continue
		}
		for j := range p.Set.Objects {
			ask(p.Set.Objects[j].APIVersion, p.Set.Objects[j].Kind)
		}
	}
	return known
}

// Change applies patches when it is the run's turn, in a span of the run's trace. Without its turn it returns no progress.
func (e *Effects) Change(ctx context.Context, log *slog.Logger, of Run, patches []effect.Patch, turn *run.Turn) (*patch.Progress, error) {
	if len(patches) == 0 {
		return nil, nil
	}
	var names []string
	if turn != nil {
		names = objects(patches, e.o.Namespace, e.unscoped(ctx, patches))
	}
	if err := turn.Wait(ctx, slices.Values(names)); err != nil {
		return nil, err
	}
	if e.o.Tracer == nil {
		return e.patches.Apply(ctx, log, of, patches)
	}
	ctx, span := e.o.Tracer.Start(ctx, "patch", trace.WithAttributes(attribute.Int("operations", len(patches))))
	defer span.End()
	done, err := e.patches.Apply(ctx, log, of, patches)
	if err != nil {
		span.SetStatus(codes.Error, run.PublicReason(err))
	}
	return done, err
}
