// Package replica elects the replica that runs the hooks: the one that holds a Lease.
//
// Callers may rely on this:
//   - At most one replica leads. A leader that cannot renew its Lease stops well before another replica may acquire it.
//   - A Lease that is released, deleted or taken is noticed immediately, by a watch; one whose holder has died, when it
//     expires. Clocks of different machines need not agree.
//   - Fencing: what a leader does under its fence (see Check) is not started once the Lease may have expired, even if the
//     process was stopped meanwhile and has not noticed yet.
//   - The Lease is released only after the work has ended, and then the next replica starts immediately.
//   - The fields of the Lease have the meaning that they have for other leader elections.
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
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// Options of a Lease. Client, Namespace, Name, Pod and the durations are required.
type Options struct {
	Client          rest.Interface
	Namespace, Name string
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
	// Changed, if set, is called whenever the holder changes. It must not block.
	Changed func(Holder)
}

// Holder is the replica that holds a Lease.
type Holder struct {
	// Name is that of its Pod; empty if no replica holds the Lease.
	Name string
	// Self reports that it is this replica.
	Self bool
}

// Lease is the share of one replica in an election.
type Lease struct {
	opts     Options
	identity string
	store    store
	log      *slog.Logger
	// woken has a token when another client has changed the Lease.
	woken  chan struct{}
	fence  fence
	logged logonce.Dedup

	mu sync.Mutex // guards what follows
	// seen is the last known state, first seen at since. It is nil if there is no Lease, or none is known.
	seen  *coordinationv1.Lease
	since time.Time
	// watching reports that a watch delivers changes by other clients.
	watching bool
	// leading is set once, when the Lease is acquired. What the watch delivers later may be older.
	leading bool
	// reported is the argument of the last call of Changed; nil before the first one.
	reported *Holder
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
	return newLease(o, &apiStore{client: o.Client, namespace: o.Namespace, name: o.Name}), nil
}

func newLease(o Options, s store) *Lease {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	identity := o.Pod + "_" + rand.Text()[:10]
	return &Lease{
		opts: o, identity: identity, store: s, woken: make(chan struct{}, 1),
		fence: fence{limit: o.RenewDeadline, now: func() moment { return momentOf(time.Now()) }},
		log:   o.Log.With("lease", o.Namespace+"/"+o.Name, "identity", identity),
	}
}

// LostError reports that this replica does not hold the Lease any more, although it has not released it.
type LostError struct{ Reason string }

func (e *LostError) Error() string { return "the Lease is lost: " + e.Reason }

// Run blocks until this replica holds the Lease, or ctx ends. Then it calls lead, renews the Lease until lead returns, and
// releases it. The context of lead ends only when the Lease is lost, with a LostError as its cause; Run returns that.
func (l *Lease) Run(ctx context.Context, lead func(context.Context)) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	parts.Go(func() { l.follow(around) })

	held, renewed, ok := l.acquire(ctx)
	if !ok {
		return nil
	}
	leading, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	keeping, endKeeping := context.WithCancel(around)
	defer endKeeping()
	var keeper sync.WaitGroup
	var lost error
	l.fence.renew(renewed)
	keeper.Go(func() {
		if held, lost = l.keep(keeping, held, renewed); lost != nil {
			l.fence.lose()
			lose(lost)
		}
	})
	lead(leading)
	endKeeping()
	keeper.Wait()
	l.fence.lose()
	if lost != nil {
		return lost
	}
	l.release(around, held)
	return nil
}

// keep renews the Lease until ctx ends. It returns the Lease as it last was, or a LostError.
func (l *Lease) keep(ctx context.Context, held *coordinationv1.Lease, renewed time.Time) (*coordinationv1.Lease, error) {
	for {
		l.fence.renew(renewed)
		deadline := renewed.Add(l.opts.RenewDeadline)
		if !l.pause(ctx, min(l.opts.RetryPeriod, time.Until(deadline))) {
			return held, nil
		}
		started := time.Now()
		attempt, cancel := context.WithDeadline(ctx, deadline)
		next, err := l.renew(attempt, held)
		cancel()
		var lost *LostError
		switch {
		case err == nil:
			held, renewed = next, started
			l.complain(nil)
		case errors.As(err, &lost):
			return held, err
		case ctx.Err() != nil:
			return held, nil
		case !time.Now().Before(deadline):
			return held, &LostError{fmt.Sprintf("it could not be renewed for %s: %v", l.opts.RenewDeadline, l.explain(err))}
		default:
			l.complain(err)
		}
	}
}

// renew writes a new time. Another client that has changed the Lease may have taken it.
func (l *Lease) renew(ctx context.Context, held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	next, err := l.store.update(ctx, renewal(held, time.Now()))
	if apierrors.IsConflict(err) {
		var live *coordinationv1.Lease
		if live, err = l.store.get(ctx); err == nil {
			if reason := whyLost(held, live); reason != "" {
				return nil, &LostError{reason}
			}
			next, err = l.store.update(ctx, renewal(live, time.Now()))
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, &LostError{"another client has deleted it"}
	}
	return next, err
}

// releaseTime limits a release: without one, the next replica waits until the Lease expires.
const releaseTime = 3 * time.Second

func (l *Lease) release(ctx context.Context, held *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	live, err := l.store.get(ctx) // a renewal may have been under way
	if err == nil && whyLost(held, live) == "" {
		_, err = l.store.update(ctx, released(live, time.Now()))
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		l.log.Warn("Cannot give the Lease back, the next replica waits until it runs out", "error", l.explain(err).Error())
		return
	}
	l.log.Info("The Lease is given back")
}

// pause waits, and returns early when another client has changed the Lease. It returns false if ctx has ended.
func (l *Lease) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.woken:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

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
		rule := kube.Rule{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "create", "update", "watch"}}
		return fmt.Errorf("%w: %s", err, kube.Grant(l.opts.Namespace, rule))
	}
	return err
}
