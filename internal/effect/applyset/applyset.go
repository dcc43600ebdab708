// Package applyset makes sets of objects complete: it applies the objects that a hook wants, records where they are, and prunes those that
// the hook no longer wants. Members and parents follow KEP-3659 (ApplySet).
//
// Callers may rely on this:
//   - Only members are changed or deleted: objects whose label of the set was applied by the set's own field manager. Other objects are
//     changed only with force, and never if they belong to another set or controller.
//   - Each change of an object has its uid, and each deletion its resource version too, as preconditions.
//   - Where members may be is recorded in the parent before they are created. So after a crash at any request, the next successful Sync
//     leaves exactly the wanted set.
//   - Nothing is pruned unless all objects were applied, and all recorded places were listed.
//   - Syncs of one set do not overlap in a process. If several processes sync it, the cluster has the result of the last success: each
//     counts itself in the parent first, and begins again if another one has done so since.
//   - While Run runs, members that other clients change are applied again, with back-off. A watch ends with the last set that has members
//     there.
//
// Not attempted: waiting for the readiness of members. The reasons are in docs/explanation/sets-of-objects.md.
package applyset

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

const (
	// parallel is the maximum number of requests in flight for one set.
	parallel = 16
	// maxAttempts bounds how often a decision is made again because another client was faster.
	maxAttempts = 4
)

// Options of an Applier. Client and Resolver are required.
type Options struct {
	Client   rest.Interface
	Resolver *kube.Resolver
	// Instance distinguishes installations, Namespace is the operator's.
	Instance, Namespace string
	// Version is the version of the operator.
	Version string
	// DryRun makes the API server check everything and change nothing.
	DryRun bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Watch is a client without time limits that watches members. If it is nil, changes of members are corrected by Syncs only; otherwise Run
	// is called. Log receives the records of restores.
	Watch rest.Interface
	Log   *slog.Logger
	// Active reports whether a hook runs. Differs is called for each member that differs from what was applied, Warn reports what is not
	// restored. They may be nil.
	Active  func(hook string) bool
	Differs func(hook, set, kind string)
	Warn    func(hook string, about effect.Owner, reason, note string)
	// Warned, if set, receives the warnings of the API server to the requests of a restore.
	Warned func(log *slog.Logger, hook, about, text string)
}

// Applier makes sets complete. It is safe for concurrent use.
type Applier struct {
	opts Options

	mu   sync.Mutex
	sets map[string]*setState // by id
	// narrow are the resources whose objects in all namespaces may not be listed.
	narrow map[schema.GroupResource]bool
	// followers are the watches that run, unwatched the scopes whose missing permission was logged.
	followers map[scope]*follower
	unwatched map[scope]bool
	// unstarted are the watches that Run starts when it is woken.
	unstarted []*follower
	wake      chan struct{}
	// drifted has the members to check. Run sets it before anything uses it.
	drifted workqueue.TypedDelayingInterface[driftKey]
	// failing has the delays after failed restores.
	failing workqueue.TypedRateLimiter[driftKey]
}

// applied is the last successful apply of an object.
type applied struct {
	// sighting is the object in the answer. Fields are what the set owns in it.
	sighting
	manifest []byte
	fields   string
	// unwanted: the last Sync has dropped the object, and failed before it was pruned. It is not restored.
	unwanted bool
}

func (n *names) applied(manifest []byte, answer *live) applied {
	a := applied{sighting: n.sighting(answer), manifest: manifest}
	if at := entryOf(answer, n.manager); at >= 0 && answer.ManagedFields[at].FieldsV1 != nil {
		a.fields = answer.ManagedFields[at].FieldsV1.GetRawString()
	}
	return a
}

// New returns an Applier.
func New(o Options) *Applier {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Version = cmp.Or(o.Version, "v0.0.0") // KEP-3659 requires one
	return &Applier{
		opts: o, sets: map[string]*setState{}, narrow: map[schema.GroupResource]bool{},
		followers: map[scope]*follower{}, unwatched: map[scope]bool{}, wake: make(chan struct{}, 1),
		failing: workqueue.NewTypedItemExponentialFailureRateLimiter[driftKey](minFailureDelay, maxFailureDelay),
	}
}

// Sync makes a set of a hook complete. It reports the RBAC rules that its requests need.
func (a *Applier) Sync(ctx context.Context, log *slog.Logger, hook string, set *effect.ObjectSet,
	needs func(namespace string, rules ...kube.Rule)) error {
	s := &session{Applier: a, hook: hook, set: set, needs: needs, log: log.With("set", set.Name)}
	if err := s.identify(ctx); err != nil {
		return err
	}
	release, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = s.run(ctx)
	s.follow()
	return err
}
