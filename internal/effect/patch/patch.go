// Package patch applies the changes of the cluster that hooks request.
//
// Callers may rely on this:
//   - Changes of one object are made in the order of the file. Adjacent changes of different objects by the same operation
//     on the same kind are made concurrently.
//   - A change that fails does not stop the others. All errors are returned together, each with its document and object; of very
//     many only the first ones, and the number of the others.
//   - Conflicts with other clients that change the same object are retried a few times.
//   - After the end of ctx no change is begun. A request that ctx ends is not repeated.
//   - Neither the log nor an error has values of objects: they may be secret.
//   - An error that says that a permission is missing names the RBAC rule that grants it.
//   - A condition replaces no entry of another type, also if the object changes at the same time. An Event never fails.
//
// It does not check patches: those that came out of package wire are valid.
package patch

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// fieldManager is our name in metadata.managedFields.
const fieldManager = "shell-operator"

// parallel is the maximum number of requests in flight, parallelSets the maximum number of sets in flight. Each of these
// has several requests in flight.
const parallel, parallelSets = 32, 8

// Options of an Applier. Client, Resolver and Filters are required, and Sync if there are sets.
type Options struct {
	Client   rest.Interface
	Resolver *kube.Resolver
	Filters  *jq.Compiler
	// DryRun makes the API server check everything and change nothing.
	DryRun bool
	// DeleteTimeout limits how long a Delete waits until the object is gone; 0 means 20 s.
	DeleteTimeout time.Duration
	// Sync makes a set of objects of a hook complete, and reports the RBAC rules that it needs.
	Sync func(ctx context.Context, log *slog.Logger, hook string, set *effect.ObjectSet,
		needs func(namespace string, rules ...kube.Rule)) error
	// Instance names the installation, in the field managers of conditions.
	Instance string
	// Warned, if set, is called for each warning of the API server to a request for a hook.
	Warned func(hook string)
	// Record publishes an Event of a hook, and does not block. Nil drops it.
	Record func(hook string, p *effect.Patch)
	// Now is the clock of conditions; nil means time.Now.
	Now func() time.Time
}

// Run is the run of the patches.
type Run struct {
	Hook string
	// Identify returns uid and generation of an object as the contexts of the run have it, nothing if they do not. It may be nil.
	Identify func(group, kind, namespace, name string) (uid string, generation int64)
	// Follow is set for conditions that the operator sets by itself. It is called before the object is read; known is the object, or nil.
	// Written is called with the resource versions before and after the change, or empty ones without a change. Objects that are being deleted
	// are left alone.
	Follow func(p *effect.Patch) (known []byte, written func(before, after string))
}

// Applier applies patches. It is safe for concurrent use.
type Applier struct {
	opts Options
	sent ledger
}

// New returns an Applier.
func New(opts Options) *Applier {
	if opts.DeleteTimeout == 0 {
		opts.DeleteTimeout = 20 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Applier{opts: opts, sent: ledger{seen: map[[6]string]bool{}}}
}

// batch is one call of Apply.
type batch struct {
	*Applier
	Progress
	run Run
	log *slog.Logger
}

// Apply applies patches. The log has the fields of their run.
func (a *Applier) Apply(ctx context.Context, log *slog.Logger, run Run, patches []effect.Patch) (*Progress, error) {
	b := &batch{Applier: a, run: run, log: log}
	for _, stretch := range stretches(patches) {
		switch stretch[0].Operation {
		case effect.RecordEvent:
			b.publish(ctx, stretch)
			continue
		case effect.Sync:
			kube.Concurrently(len(stretch), parallelSets, func(i int) { b.add(&stretch[i], b.sync(ctx, &stretch[i])) })
			continue
		}
		// The kind is resolved here and not earlier: one of the patches before may have defined it.
		res, err := a.resolve(ctx, &stretch[0])
		if err != nil {
			for i := range stretch {
				b.add(&stretch[i], err)
			}
			continue
		}
		for _, wave := range waves(stretch, res.Namespaced) {
			kube.Concurrently(len(wave), parallel, func(i int) { b.add(&wave[i], b.one(ctx, &wave[i], res)) })
		}
	}
	return &b.Progress, b.err()
}

// publish passes Events on. It cannot fail, and a dry run publishes nothing.
func (b *batch) publish(ctx context.Context, patches []effect.Patch) {
	for i := range patches {
		p := &patches[i]
		b.announce(ctx, p)
		b.sent.note(b.run.Hook, p.Operation, cmp.Or(p.Namespace, "default"),
			kube.Rule{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}})
		if b.opts.DryRun || b.opts.Record == nil {
			continue
		}
		if gv, err := schema.ParseGroupVersion(p.APIVersion); err == nil && p.Event.UID == "" && b.run.Identify != nil {
			p.Event.UID, _ = b.run.Identify(gv.Group, p.Kind, p.Namespace, p.Name)
		}
		b.opts.Record(b.run.Hook, p)
	}
}

// sync makes a set complete.
func (b *batch) sync(ctx context.Context, p *effect.Patch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	whole, err := p.Whole()
	if err != nil {
		return err
	}
	b.announce(ctx, whole)
	return b.opts.Sync(b.receiveWarnings(ctx, p), b.log, b.run.Hook, whole.Set, func(namespace string, rules ...kube.Rule) {
		b.sent.note(b.run.Hook, p.Operation, namespace, rules...)
	})
}

// receiveWarnings makes the batch receive warnings to requests for a patch.
func (b *batch) receiveWarnings(ctx context.Context, p *effect.Patch) context.Context {
	return kube.WithWarnings(ctx, func(about, text string) {
		if b.opts.Warned != nil {
			b.opts.Warned(b.run.Hook)
		}
		kept := text
		if p.Set == nil && p.Name != "" {
			about = p.Kind + " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
		} else {
			kept = about + ": " + text
		}
		if b.warn(p, kept) {
			LogWarning(b.log, about, text)
		}
	})
}

func (a *Applier) resolve(ctx context.Context, p *effect.Patch) (kube.Resource, error) {
	if p.Operation == effect.Create && p.Subresource != "" {
		return a.opts.Resolver.ResolveSubresource(ctx, p.APIVersion, p.Kind, p.Subresource)
	}
	return a.opts.Resolver.Resolve(ctx, p.APIVersion, p.Kind)
}

// announce logs a patch and returns the log of its request.
func (b *batch) announce(ctx context.Context, p *effect.Patch) *slog.Logger {
	log := b.log.With("operation", p.Operation.String(), "kind", p.Kind, "namespace", p.Namespace, "name", p.Name)
	level, text := slog.LevelDebug, "Patch object"
	if b.opts.DryRun {
		level, text = slog.LevelInfo, "Dry run, the object is not changed"
	}
	log.Log(ctx, level, text, "bytes", p.Size())
	return log
}

func (b *batch) one(ctx context.Context, p *effect.Patch, res kube.Resource) error {
	if err := ctx.Err(); err != nil { // a hundred thousand requests that fail would take longer than the rest of a shutdown
		return err
	}
	ctx = b.receiveWarnings(ctx, p)
	p, err := p.Whole()
	if err != nil {
		return err
	}
	log := b.announce(ctx, p)
	do := func() error { return (&request{Options: &b.opts, batch: b, patch: p, resource: res, log: log}).do(ctx) }
	if err = do(); err == nil {
		return nil
	}
	if kube.IsUnserved(err) && p.Operation != effect.Create {
		// The resource was found earlier. Without this, a Delete in a version that is no longer served would seem to succeed.
		served, unknown := b.opts.Resolver.ResolveAgain(ctx, p.APIVersion, p.Kind)
		if unknown == nil && served != res {
			res = served
			return explain(do(), p, res)
		}
		if p.IgnoreMissingObject || p.Operation.Deletes() {
			return nil
		}
	}
	return explain(err, p, res)
}

// explain adds the RBAC rule to an error about a missing permission.
func explain(err error, p *effect.Patch, res kube.Resource) error {
	namespace, rules := needs(p, res)
	if !kube.IsPermissionMissing(err) {
		return kube.ExplainEscalation(err, namespace, res, p.NameInPath(), p.Object)
	}
	return fmt.Errorf("%w: %s", err, kube.Grant(namespace, rules...))
}

// needs returns the RBAC rules for a patch, and their namespace.
func needs(p *effect.Patch, res kube.Resource) (namespace string, rules []kube.Rule) {
	if res.Namespaced {
		namespace = p.Namespace
	}
	all := kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: p.Operation.Verbs()}
	if p.Subresource == "" {
		return namespace, []kube.Rule{all}
	}
	// The object itself is read, its subresource is written.
	read, written := all, all
	read.Verbs, written.Resource = []string{"get"}, res.Resource+"/"+p.Subresource
	written.Verbs = slices.DeleteFunc(slices.Clone(all.Verbs), func(verb string) bool { return verb == "get" })
	if !slices.Contains(all.Verbs, "get") {
		return namespace, []kube.Rule{written}
	}
	return namespace, []kube.Rule{written, read}
}
