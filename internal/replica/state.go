package replica

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

// podAnnotation has the name of the Pod whose process holds the Lease, shardAnnotation the shard as "i/N", divisionAnnotation its division.
const (
	podAnnotation      = "shell-operator/pod"
	shardAnnotation    = "shell-operator/shard"
	divisionAnnotation = "shell-operator/division"
)

// ShardsLabel is on the Leases of shards, with the name of the one of leader election.
const ShardsLabel = "shell-operator/shards"

// holder returns the identity of the process that holds a Lease, or "".
func holder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// HolderName returns the Pod that holds a Lease. An annotation that another client has left behind does not count: then it
// is the identity.
func HolderName(lease *coordinationv1.Lease) string {
	h := holder(lease)
	if h == "" {
		return ""
	}
	if pod := lease.Annotations[podAnnotation]; strings.HasPrefix(h, pod+"_") {
		return pod
	}
	return h
}

// claim returns the Lease with this replica as its holder.
func (l *Lease) claim(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	transitions := ptr.Deref(lease.Spec.LeaseTransitions, 0)
	if before := holder(lease); before != l.identity && lease.ResourceVersion != "" {
		transitions++
	}
	seconds := int32((l.opts.Duration + time.Second - 1) / time.Second)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.LeaseTransitions = &l.identity, &seconds, &transitions
	next.Spec.AcquireTime, next.Spec.RenewTime = micro(now), micro(now)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, podAnnotation, l.opts.Pod)
	l.label(next)
	return next
}

// label marks the Lease of a shard as one: processes see those with the label only.
func (l *Lease) label(lease *coordinationv1.Lease) {
	if i := slices.Index(l.rules().Names, lease.Name); l.opts.Shards > 0 && i >= 0 {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardAnnotation, fmt.Sprintf("%d/%d", i, l.opts.Shards))
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, divisionAnnotation, l.division)
		metav1.SetMetaDataLabel(&lease.ObjectMeta, ShardsLabel, l.opts.Name)
	}
}

// renewal returns the Lease with a new renew time, and with the label, which a user may have removed.
func (l *Lease) renewal(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	next.Spec.RenewTime = micro(now)
	l.label(next)
	return next
}

// released returns the Lease without a holder. Clients that ignore the holder see a Lease of one second.
func released(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	next.Spec.RenewTime = micro(now)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = nil, ptr.To[int32](1)
	delete(next.Annotations, podAnnotation)
	return next
}

// micro returns a time with the precision of a Lease: more digits would make it differ from what the API server returns.
func micro(t time.Time) *metav1.MicroTime {
	return &metav1.MicroTime{Time: t.Truncate(time.Microsecond)}
}

// ruled returns what the rules read of a Lease.
func ruled(lease *coordinationv1.Lease) ownership.Lease {
	return ownership.Lease{
		Name: lease.Name, UID: string(lease.UID), Version: lease.ResourceVersion, Holder: holder(lease),
		Division: lease.Annotations[divisionAnnotation],
		Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
	}
}

// State is what a replica knows of the Leases.
type State struct {
	// Serving: this replica leads, or serves the shard.
	Serving bool
	// Shard is the shard of the Lease that this replica holds; -1 if it holds none. It is 0 for leader election.
	Shard int
	// Holders are the Pods that hold the Leases, by shard; empty for none. Who serves a shard knows the other holders as of its start.
	Holders []string
	// Waits is what the replica waits for; empty if it serves. Rival is the Pod of another division, or the leader of leader election, whose
	// end that is; empty if it is none.
	Waits, Rival string
	// Since is when the rest has changed.
	Since time.Time
}

// State returns what is known now.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Vacant returns the shards that no process has held for longer than it takes a live standby to serve them. Only the first of the owners
// knows, and only while it can read the Leases.
func (l *Lease) Vacant() (shards []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, since := range l.vacant {
		if !since.IsZero() && l.problem == "" && time.Since(since) >= 2*l.opts.Duration {
			shards = append(shards, i)
		}
	}
	return shards
}

// changed returns the state if it has changed since the last call. mu is held.
func (l *Lease) changed() *State {
	if !l.machine.Read() {
		return nil
	}
	names := l.rules().Names
	next := State{Serving: l.machine.Phase() == ownership.Serving, Shard: l.machine.Shard()}
	for i, name := range names {
		lease := l.objects[name]
		switch {
		case next.Serving && i == next.Shard:
			next.Holders = append(next.Holders, l.opts.Pod)
		case holder(lease) == l.identity, lease != nil && ruled(lease).Division != l.division: // it does not serve yet, or another division
			next.Holders = append(next.Holders, "")
		default:
			next.Holders = append(next.Holders, HolderName(lease))
		}
	}
	if !next.Serving {
		next.Waits, next.Rival = l.waits()
	}
	was := l.state
	if was.Serving == next.Serving && was.Shard == next.Shard && was.Waits == next.Waits && slices.Equal(was.Holders, next.Holders) {
		return nil
	}
	next.Since = time.Now()
	l.state = next
	return &next
}

// waits describes what a replica that does not serve waits for. mu is held.
func (l *Lease) waits() (what, rival string) {
	if lease := l.machine.Rival(); lease != "" {
		rival = cmp.Or(HolderName(l.objects[lease]), "?")
		if lease == l.opts.Name {
			return fmt.Sprintf("the end of the leader %q of leader election", rival), rival
		}
		return fmt.Sprintf("the end of %q, which serves a shard of another division, with the Lease %s", rival, lease), rival
	}
	switch l.machine.Phase() {
	case ownership.Checking:
		return "the check that no shard of another division is served", ""
	case ownership.Settling:
		return fmt.Sprintf("the end of %s, because its Lease is new", l.opts.Duration), ""
	case ownership.Ended:
		return "", ""
	}
	return "a Lease that is free", ""
}
