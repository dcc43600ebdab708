// Package patch carries out the changes of the cluster that hooks ask for.
//
// Callers may rely on this:
//   - Changes of one object are made in the order of the file. Neighbours that do the same to different objects of one
//     kind are made at the same time.
//   - A change that fails does not stop the others. All errors come back together, each with its place and object; of very
//     many the first ones, and how many more there are.
//   - Conflicts with others who change the same object are tried again a few times.
//   - A request that ctx ends is not repeated. No values reach the log: they may be secret.
//
// It does not check patches: those that came out of package wire are valid.
package patch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// fieldManager is our name in metadata.managedFields.
const fieldManager = "shell-operator"

// Options of an Applier. Client, Resolver and Filters are required.
type Options struct {
	Client   rest.Interface
	Resolver *kube.Resolver
	Filters  *jq.Compiler
	// DryRun lets the API server check everything and change nothing.
	DryRun bool
	// DeleteTimeout is how long a Delete waits for the object to be gone; 0 means 20 s.
	DeleteTimeout time.Duration
	// Parallel is the number of requests at a time; 0 means 32.
	Parallel int
}

// Applier carries out patches. It is safe for concurrent use.
type Applier struct{ opts Options }

// New returns an Applier.
func New(opts Options) *Applier {
	if opts.DeleteTimeout == 0 {
		opts.DeleteTimeout = 20 * time.Second
	}
	if opts.Parallel == 0 {
		opts.Parallel = 32
	}
	return &Applier{opts}
}

// Apply carries out patches. The log tells whose they are.
func (a *Applier) Apply(ctx context.Context, log *slog.Logger, patches []effect.Patch) error {
	var f failures
	for _, batch := range batches(patches) {
		a.batch(ctx, log, batch, &f)
	}
	return f.join()
}

// batch carries out patches of one kind at the same time.
func (a *Applier) batch(ctx context.Context, log *slog.Logger, patches []effect.Patch, f *failures) {
	res, err := a.resolve(ctx, &patches[0])
	slots := make(chan struct{}, a.opts.Parallel)
	var running sync.WaitGroup
	for i := range patches {
		if err != nil {
			f.add(&patches[i], err)
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f.add(&patches[i], a.one(ctx, log, &patches[i], res))
		})
	}
	running.Wait()
}

func (a *Applier) resolve(ctx context.Context, p *effect.Patch) (kube.Resource, error) {
	if p.Operation == effect.Create && p.Subresource != "" {
		return a.opts.Resolver.ResolveSubresource(ctx, p.APIVersion, p.Kind, p.Subresource)
	}
	return a.opts.Resolver.Resolve(ctx, p.APIVersion, p.Kind)
}

func (a *Applier) one(ctx context.Context, log *slog.Logger, p *effect.Patch, res kube.Resource) error {
	log = log.With("operation", p.Operation.String(), "kind", p.Kind, "namespace", p.Namespace, "name", p.Name)
	level, text := slog.LevelDebug, "Patch object"
	if a.opts.DryRun {
		level, text = slog.LevelInfo, "Dry run, the object is not changed"
	}
	log.Log(ctx, level, text, "bytes", p.Size())
	return (&request{Options: &a.opts, patch: p, resource: res, log: log}).do(ctx)
}
