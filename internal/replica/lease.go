// Package replica decides which replica runs the hooks, or which part of their objects it serves: the part of the Lease that it holds. With
// leader election there is one Lease; with shards, one for each.
//
// Callers may rely on this:
//   - At most one replica leads, or serves a shard. One that cannot renew its Lease stops well before another replica may acquire it.
//   - A process serves one shard for its whole life.
//   - A Lease that is released, deleted or taken is noticed immediately, by a watch; one whose holder has died, when it
//     expires. Clocks of different machines need not agree.
//   - Fencing: what a leader or owner does under its fence (see Check) is not started once the Lease may have expired, even if the
//     process was stopped meanwhile and has not noticed yet.
//   - The Lease is released only after the work has ended, and then the next replica starts immediately.
//   - The fields of the Lease have the meaning that they have for other leader elections.
//
// The rules are in package ownership, which this one drives: it sends the requests, watches, and reads the clocks.
//
// It does not use the election of client-go. That one reads the Lease only every few seconds, so a hand-over takes
// seconds and a leader whose Lease was taken continues for ten more; it may release the Lease before the work has ended;
// and it imports the typed clients of all APIs, which make the program half as large again.
package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/replica/ownership"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// Options of a Lease. Client, Namespace, Name, Pod and the durations are required.
type Options struct {
	Client          rest.Interface
	Namespace, Name string
	// Shards is the number of Leases; 0 is leader election, with one Lease of that Name.
	Shards int
	// Pod is the name of this replica. Its identity has a random part, too: a Pod of a StatefulSet that is replaced has
	// the name of the one before, which may still run on a node that cannot be reached.
	Pod string
	// Duration is how long standbys wait after the last renewal. The Lease has it in whole seconds.
	Duration time.Duration
	// RenewDeadline is how long a leader continues without a renewal that the API server has confirmed.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals, and between two reads without the permission to watch.
	RetryPeriod time.Duration
	Log         *slog.Logger
	// Changed, if set, is called with each new State. It must not block.
	Changed func(State)
}

// Lease is the share of one replica in an election.
type Lease struct {
	opts     Options
	identity string
	store    store
	log      *slog.Logger
	// woken has a token when another client has changed a Lease, or the machine has to act for another reason.
	woken  chan struct{}
	fence  fence
	logged logonce.Dedup

	mu sync.Mutex // guards what follows
	// division is an annotation of the Leases of shards; machine the rules for it. Both are set by Run.
	division string
	machine  *ownership.Machine
	// objects are the Leases as the machine knows them, by name.
	objects map[string]*coordinationv1.Lease
	state   State
	// vacant is since when each shard has no holder, as the first owner sees it; the zero time for one that has. It is nil if that is unknown.
	vacant []time.Time
	// problem is why the Lease cannot be used now; empty if it can.
	problem string
}

// New returns a Lease, or an error about the durations.
func New(o Options) (*Lease, error) {
	if o.Duration < time.Second || o.RenewDeadline >= o.Duration || o.RetryPeriod >= o.RenewDeadline || o.RetryPeriod <= 0 {
		return nil, fmt.Errorf("the durations of leader election do not fit: Lease %s, renewal deadline %s, retry period %s: each must be "+
			"shorter than the one before, and the first at least 1s",
			o.Duration, o.RenewDeadline, o.RetryPeriod)
	}
	return newLease(o), nil
}

func newLease(o Options) *Lease {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	identity := o.Pod + "_" + rand.Text()[:10]
	return &Lease{
		opts: o, identity: identity, store: store{o.Client, o.Namespace}, woken: make(chan struct{}, 1),
		objects: map[string]*coordinationv1.Lease{},
		fence:   fence{limit: o.RenewDeadline, now: func() moment { return ownership.At(time.Now()) }},
		log:     o.Log.With("lease", o.Namespace+"/"+o.Name, "identity", identity),
	}
}

// LostError reports that this replica does not hold the Lease any more, although it has not released it.
type LostError struct{ Reason string }

func (e *LostError) Error() string { return "the Lease is lost: " + e.Reason }

// Shard is what a replica does with the Lease of a shard.
type Shard struct {
	// Division differs when objects are divided in another way.
	Division string
	// Assigned is called once, before Serve, when it is certain which shard this process will serve. Until Serve, another process may serve
	// it.
	Assigned func(index int)
	// Serve is as lead of Run.
	Serve func(context.Context)
}

// Run blocks until this replica holds the Lease of leader election, or ctx ends. Then it calls lead, renews the Lease until lead returns,
// and releases it. The context of lead ends only when the Lease is lost, with a LostError as its cause; Run returns that.
func (l *Lease) Run(ctx context.Context, lead func(context.Context)) error {
	return l.RunShard(ctx, Shard{Assigned: func(int) {}, Serve: lead})
}

// RunShard is as Run, with the Lease of one of the shards.
func (l *Lease) RunShard(ctx context.Context, s Shard) error {
	l.mu.Lock()
	l.division = s.Division
	l.machine = ownership.New(l.rules())
	l.mu.Unlock()
	d := &driver{Lease: l, shard: s, phase: ownership.Standby}
	defer d.parts.Wait()
	d.around, d.end = context.WithCancel(context.WithoutCancel(ctx))
	defer d.end()
	d.follow(l.opts.Shards > 0)
	return d.drive(ctx)
}

// rules returns the configuration of the machine.
func (l *Lease) rules() *ownership.Config {
	c := &ownership.Config{
		Identity: l.identity, Names: []string{l.opts.Name},
		Duration: l.opts.Duration, RenewDeadline: l.opts.RenewDeadline, RetryPeriod: l.opts.RetryPeriod,
		Jitter: func(limit time.Duration) time.Duration { return mathrand.N(limit) },
	}
	if n := l.opts.Shards; n > 0 {
		c.Elected, c.Settle, c.First = l.opts.Name, true, mathrand.N(n)
		c.Division, c.Names = l.division, nil
		for i := range n {
			c.Names = append(c.Names, shard.Lease(l.opts.Name, i))
		}
	}
	return c
}

// Selector returns the label selector for the Leases of all shards.
func (l *Lease) Selector() string { return ShardsLabel + "=" + l.opts.Name }

// complain logs an error when it begins or changes, and its end.
func (l *Lease) complain(err error) {
	if err == nil {
		l.setProblem("")
		if l.logged.End("use") {
			l.log.Info("The Lease can be used again")
		}
		return
	}
	err = l.explain(err)
	l.setProblem(err.Error())
	if _, due := l.logged.Due("use", err.Error()); due {
		l.log.Warn("Cannot use the Lease. Will retry after delay.", "error", err.Error(), "delay", l.opts.RetryPeriod.String())
	}
}

func (l *Lease) setProblem(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = text
}

// Problem is why the Lease cannot be read or renewed now; empty if it can.
func (l *Lease) Problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// explain adds the RBAC rule to an error about a missing permission.
func (l *Lease) explain(err error) error {
	if apierrors.IsForbidden(err) {
		rule := kube.Rule{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list", "create", "update", "watch"}}
		if l.opts.Shards > 0 {
			rule.Verbs = append(rule.Verbs, "delete")
		}
		return fmt.Errorf("%w: %s", err, kube.Grant(l.opts.Namespace, rule))
	}
	return err
}

func (l *Lease) wake() {
	kube.Wake(l.woken)
}

// result is what the rules distinguish of an error.
func result(err error) ownership.Result {
	switch {
	case err == nil:
		return ownership.Done
	case apierrors.IsNotFound(err):
		return ownership.Missing
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return ownership.Changed
	case apierrors.IsForbidden(err):
		return ownership.Denied
	}
	return ownership.Unknown
}

var errNoLease = errors.New("the Lease is not known any more")
