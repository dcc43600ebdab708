package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

// releaseTime limits a release: without one, the next replica waits until the Lease expires.
const releaseTime = 3 * time.Second

// driver is one run of a Lease. Its goroutine alone calls Next and Answer.
type driver struct {
	*Lease
	shard Shard
	// around is the context of requests and watches, until all is over.
	around context.Context
	end    context.CancelFunc
	parts  sync.WaitGroup
	// unwatch ends the watch.
	unwatch context.CancelFunc

	phase ownership.Phase
	// denied is the request that the permission is missing for, in the phase deniedIn; Wait is none.
	denied   ownership.Op
	deniedIn ownership.Phase
	// serving is what Serve runs in; nil before it does.
	serving *serving
	// releasing is the end of the time for a release of the own Lease; zero before it begins.
	releasing time.Time
}

// serving is the time in which a replica serves.
type serving struct {
	lose context.CancelCauseFunc
	done chan struct{}
}

// drive does what the machine returns, until the end.
func (d *driver) drive(ctx context.Context) error {
	asked := ctx.Done()
	for {
		switch {
		case d.serving != nil && isClosed(d.serving.done):
			d.step(d.machine.Idle)
		case asked != nil && ctx.Err() != nil:
			asked = nil
			d.step(d.machine.Stop)
		}
		a, lost := d.next(ctx)
		switch a.Op {
		case ownership.End:
			return d.ended(lost)
		case ownership.Wait:
			d.wait(asked, a.Until)
		default:
			d.request(ctx, a)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (d *driver) step(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// next returns the next action, and does what a new phase needs.
func (d *driver) next(ctx context.Context) (a ownership.Action, lost string) {
	d.mu.Lock()
	now := d.fence.now()
	a = d.machine.Next(now)
	phase, shard, renewed, lost := d.machine.Phase(), d.machine.Shard(), d.machine.Renewed(), d.machine.Lost()
	changed := d.changed()
	d.mu.Unlock()
	before := d.phase
	if d.phase = phase; before != phase && phase == ownership.Standby {
		d.releasing = time.Time{}
	}
	// The fence is there before a run, and after each renewal.
	switch {
	case phase == ownership.Serving && (d.serving == nil || !isClosed(d.serving.done)):
		d.fence.hold(renewed)
	default:
		d.fence.lose()
	}
	if before != phase && d.opts.Shards > 0 {
		switch {
		case phase == ownership.Standby:
			d.follow(true)
		case before == ownership.Standby && phase != ownership.Ended:
			d.follow(false)
		}
	}
	if (phase == ownership.Settling || phase == ownership.Serving) && before < ownership.Settling {
		d.shard.Assigned(shard)
	}
	if changed != nil && d.opts.Changed != nil {
		d.opts.Changed(*changed)
	}
	if phase == ownership.Serving && d.serving == nil {
		d.serve(ctx)
	}
	return a, lost
}

// serve starts Serve.
func (d *driver) serve(ctx context.Context) {
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &serving{lose: lose, done: make(chan struct{})}
	d.serving = s
	d.parts.Go(func() {
		defer lose(nil)
		d.shard.Serve(held)
		close(s.done)
		d.wake()
	})
	if d.opts.Shards > 0 {
		own := d.machine.Shard()
		d.parts.Go(func() { d.look(s.done, own) })
	}
}

// look reads the Leases of all shards once per Duration, until done is closed. Owners do that, because the usual reason for a shard without
// an owner is that there are fewer replicas than shards, and then none of them is a standby. The first of the owners, by their shards,
// notes what it sees. Each ends itself if leader election has a live holder, which has to wait for it and did not: one without the
// permission to list, as leaders of other versions may be.
func (d *driver) look(done <-chan struct{}, own int) {
	ticker := time.NewTicker(d.opts.Duration)
	defer ticker.Stop()
	versions, led := map[string]string{}, ""
	for {
		if lease, err := d.get(d.around, d.rules().Elected); err == nil && holder(lease) != "" {
			if led != "" && led != lease.ResourceVersion { // a holder that died renews nothing
				d.step(func() { d.machine.Led(holder(lease)) })
				d.wake()
				return
			}
			led = lease.ResourceVersion
		}
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(d.around, d.opts.RenewDeadline)
		all, err := d.store.list(limited, d.Selector())
		cancel()
		if err != nil { // what keeps a replica from reading keeps it from renewing, too, which is reported
			d.step(func() { d.vacant = nil })
			continue
		}
		held := map[string]string{}
		for i := range all {
			if holder(&all[i]) != "" {
				held[all[i].Name] = all[i].ResourceVersion
			}
		}
		d.step(func() {
			var vacant []bool
			for _, name := range d.rules().Names {
				version, has := held[name]
				vacant = append(vacant, !has || version == versions[name]) // a live owner has renewed it meanwhile
			}
			if slices.Contains(vacant[:own], false) { // that owner notes it
				d.vacant = nil
				return
			}
			if d.vacant == nil {
				d.vacant = make([]time.Time, len(vacant))
			}
			for shard, is := range vacant {
				switch {
				case !is || shard == own:
					d.vacant[shard] = time.Time{}
				case d.vacant[shard].IsZero():
					d.vacant[shard] = time.Now()
				}
			}
		})
		versions = held
	}
}

// get reads a Lease in the time in which it matters.
func (d *driver) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.RenewDeadline)
	defer cancel()
	return d.store.get(ctx, name)
}

// ended waits for the end of what was served.
func (d *driver) ended(lost string) error {
	var err error
	if lost != "" {
		if problem := d.Problem(); problem != "" {
			lost += ": " + problem
		}
		err = &LostError{lost}
	}
	if d.serving != nil {
		if err != nil {
			d.serving.lose(err)
		}
		<-d.serving.done
	}
	return err
}

// wait returns at a time, or earlier for an event. The zero time is never.
func (d *driver) wait(asked <-chan struct{}, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-d.woken:
	case <-asked:
	}
}

// request sends one request, and passes its answer to the machine.
func (d *driver) request(ctx context.Context, a ownership.Action) {
	ctx, cancel := d.contextOf(ctx, a)
	defer cancel()
	d.mu.Lock()
	known := d.objects[a.Lease.Name]
	d.mu.Unlock()
	started := d.fence.now()
	lease, all, err := d.send(ctx, a, known, started.Steady)
	now := d.fence.now()
	d.report(ctx, a, err, now.Since(started))

	answer := ownership.Answer{Result: result(err)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if lease != nil && err == nil {
		d.objects[lease.Name] = lease
		answer.Lease = ruled(lease)
	}
	for i := range all {
		d.objects[all[i].Name] = &all[i]
		answer.Leases = append(answer.Leases, ruled(&all[i]))
	}
	d.machine.Answer(a, started, now, answer)
}

// contextOf bounds a request. One that takes a Lease does not end with ctx: a Lease that was acquired has to be released.
func (d *driver) contextOf(ctx context.Context, a ownership.Action) (context.Context, context.CancelFunc) {
	limit := d.opts.RenewDeadline
	switch a.Op {
	case ownership.Create, ownership.Take:
		return context.WithTimeout(d.around, min(limit, releaseTime))
	case ownership.Clear, ownership.Delete:
		if a.Lease.Holder == d.identity {
			if d.releasing.IsZero() {
				d.releasing = time.Now().Add(releaseTime)
			}
			return context.WithDeadline(d.around, d.releasing)
		}
	}
	if !d.releasing.IsZero() && ctx.Err() != nil {
		return context.WithDeadline(d.around, d.releasing)
	}
	if d.phase != ownership.Standby {
		d.mu.Lock()
		limit -= d.fence.now().Since(d.machine.Renewed())
		d.mu.Unlock()
	}
	if d.serving != nil {
		ctx = d.around
		if isClosed(d.serving.done) {
			return context.WithTimeout(d.around, min(limit, releaseTime))
		}
	}
	return context.WithTimeout(ctx, limit)
}

// send sends the request of an action. Known is the Lease as the machine knows it.
func (d *driver) send(ctx context.Context, a ownership.Action, known *coordinationv1.Lease, now time.Time) (
	lease *coordinationv1.Lease, all []coordinationv1.Lease, err error) {
	switch a.Op {
	case ownership.List:
		all, err = d.store.list(ctx, d.Selector())
		return nil, all, err
	case ownership.Get:
		lease, err = d.store.get(ctx, a.Lease.Name)
		return lease, nil, err
	case ownership.Create:
		lease, err = d.store.create(ctx, d.claim(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.opts.Namespace, Name: a.Lease.Name}}, now))
		if d.opts.Shards > 0 && apierrors.IsAlreadyExists(err) {
			err = d.invisible(ctx, a.Lease.Name, err)
		}
		return lease, nil, err
	}
	if known == nil || known.ResourceVersion != a.Lease.Version {
		return nil, nil, errNoLease
	}
	switch a.Op {
	case ownership.Take:
		lease, err = d.store.update(ctx, d.claim(known, now))
	case ownership.Renew:
		lease, err = d.store.update(ctx, d.renewal(known, now))
	case ownership.Clear:
		lease, err = d.store.update(ctx, released(known, now))
	case ownership.Delete:
		err = d.store.remove(ctx, known)
	}
	return lease, nil, err
}

// invisible returns the error of a creation, or says that lists do not have the Lease that exists, because it has no label.
func (d *driver) invisible(ctx context.Context, name string, exists error) error {
	if lease, err := d.store.get(ctx, name); err == nil && lease.Labels[ShardsLabel] != d.opts.Name {
		return fmt.Errorf("the Lease %s has no label %s: if it is that of another program, set another --leader-election-lease; if not, "+
			"delete it", name, d.Selector())
	}
	return exists
}

// report logs the problems of requests.
func (d *driver) report(ctx context.Context, a ownership.Action, err error, took time.Duration) {
	taking := a.Op == ownership.Create || a.Op == ownership.Take
	failed := result(err) >= ownership.Denied || a.Op == ownership.Create && apierrors.IsNotFound(err)
	switch {
	case a.Op == ownership.Delete && a.Lease.Holder != d.identity && err == nil:
		d.log.Info("A Lease of another division without a holder is deleted", "of", a.Lease.Name)
	case a.Lease.Holder == d.identity && (a.Op == ownership.Clear || a.Op == ownership.Delete):
		if failed {
			d.log.Warn("Cannot give the Lease back, the next replica waits until it runs out", "error", d.explain(err).Error())
		} else if err == nil {
			d.log.Info("The Lease is given back", "of", a.Lease.Name)
		}
		return
	case d.serving != nil && isClosed(d.serving.done),
		failed && errors.Is(ctx.Err(), context.Canceled) && d.phase == ownership.Standby && !taking:
		return // at the end
	case taking && err == nil && took >= d.opts.RenewDeadline:
		err = fmt.Errorf("acquiring it took %s, which is longer than it counts for: was this process or its machine stopped?",
			took.Round(time.Millisecond))
	case !failed:
		err = nil
	}
	switch {
	case apierrors.IsForbidden(err):
		d.denied, d.deniedIn = a.Op, d.phase
	case err == nil && d.denied != a.Op && d.denied != ownership.Wait && d.deniedIn == d.phase:
		return // a renewal that is granted does not grant the deletion
	default:
		d.denied = ownership.Wait
	}
	d.complain(err)
}

// follow watches the Leases of all shards, or the one of this replica, until the next call, or the end. Events may be late, so they only
// make the machine read. Without the permission to watch, it reads once per RetryPeriod.
func (d *driver) follow(all bool) {
	if d.unwatch != nil {
		d.unwatch()
	}
	ctx, cancel := context.WithCancel(d.around)
	d.unwatch = cancel
	name, selector := d.opts.Name, ""
	d.mu.Lock()
	if i := d.machine.Shard(); d.opts.Shards > 0 && !all && i >= 0 {
		name = d.rules().Names[i]
	}
	d.mu.Unlock()
	if all {
		selector = d.Selector()
	}
	watching := func(on bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if ctx.Err() == nil {
			d.machine.Watch(on)
		}
	}
	d.parts.Go(func() {
		kube.WatchOne(ctx, kube.Backoff{Min: 500 * time.Millisecond, Max: d.opts.RetryPeriod}, func(ctx context.Context) error {
			return d.store.watch(ctx, name, selector, func() { watching(true); d.wake() }, func(name string, lease *coordinationv1.Lease) {
				d.observe(ctx, name, lease)
			})
		}, func(err error) {
			watching(false)
			if apierrors.IsForbidden(err) {
				if _, due := d.logged.Due("watch", ""); due {
					d.log.Warn("No permission to watch the Lease: a hand-over takes longer", "error", d.explain(err).Error())
				}
			}
			d.wake() // there may have been changes since the watch ended
		})
	})
}

// observe handles a change, unless it is our own.
func (d *driver) observe(ctx context.Context, name string, lease *coordinationv1.Lease) {
	if holder(lease) == d.identity {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return // of a watch that was replaced
	}
	var seen *ownership.Lease
	if lease != nil {
		s := ruled(lease)
		seen = &s
	}
	if d.machine.Phase() == ownership.Standby {
		if lease != nil {
			d.objects[name] = lease
		} else {
			delete(d.objects, name)
		}
	}
	d.machine.Observe(d.fence.now(), name, seen)
	d.wake()
}
