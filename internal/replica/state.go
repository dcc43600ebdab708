package replica

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podAnnotation has the name of the Pod whose process holds the Lease.
const podAnnotation = "shell-operator/pod"

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

// remaining returns how long a Lease is not free for us, given the time at which its state was first seen. The times in it
// are by the clock of another machine and do not count. A Lease with our identity is from a request of ours that was
// answered too late, or not at all.
func remaining(lease *coordinationv1.Lease, since, now time.Time, identity string, otherwise time.Duration) time.Duration {
	if h := holder(lease); h == "" || h == identity {
		return 0
	}
	duration := otherwise
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		duration = time.Duration(*seconds) * time.Second
	}
	return max(0, since.Add(duration).Sub(now))
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
	return next
}

// renewal returns the Lease with a new renew time.
func renewal(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	next.Spec.RenewTime = micro(now)
	return next
}

// released returns the Lease without a holder. Clients that ignore the holder see a Lease of one second.
func released(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := renewal(lease, now)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = nil, ptr.To[int32](1)
	delete(next.Annotations, podAnnotation)
	return next
}

// whyLost returns why the Lease is not ours any more, or "". ours is its last known state.
func whyLost(ours, live *coordinationv1.Lease) string {
	switch h := holder(live); h {
	case holder(ours):
		return ""
	case "":
		return "another client has cleared its holder"
	default:
		return fmt.Sprintf("%q has taken it", h)
	}
}

// micro returns a time with the precision of a Lease: more digits would make it differ from what the API server returns.
func micro(t time.Time) *metav1.MicroTime {
	return &metav1.MicroTime{Time: t.Truncate(time.Microsecond)}
}
