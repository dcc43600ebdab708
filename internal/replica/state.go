package replica

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// holder is who holds a Lease, or "".
func holder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// remaining is how long a Lease that was new to us at a time is not free for us. The times in it are those of another
// machine's clock and do not count. A Lease that is ours is left from a process of that name that is gone.
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

// claim is the Lease when we have taken it.
func claim(lease *coordinationv1.Lease, identity string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	transitions := ptr.Deref(lease.Spec.LeaseTransitions, 0)
	if before := holder(lease); before != identity && lease.ResourceVersion != "" {
		transitions++
	}
	seconds := int32((duration + time.Second - 1) / time.Second)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.LeaseTransitions = &identity, &seconds, &transitions
	next.Spec.AcquireTime, next.Spec.RenewTime = micro(now), micro(now)
	return next
}

// renewal is the Lease with a new sign of life.
func renewal(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := lease.DeepCopy()
	next.Spec.RenewTime = micro(now)
	return next
}

// released is the Lease when we have given it back. What knows only times gets a short one.
func released(lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := renewal(lease, now)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = nil, ptr.To[int32](1)
	return next
}

// whyLost tells whether the Lease is another one's, given ours as we last knew it. The time at which it was taken tells
// apart processes of one name.
func whyLost(ours, live *coordinationv1.Lease) string {
	switch h := holder(live); {
	case h == "":
		return "somebody has cleared its holder"
	case h != holder(ours):
		return fmt.Sprintf("%q has taken it", h)
	case !ours.Spec.AcquireTime.Equal(live.Spec.AcquireTime):
		return fmt.Sprintf("another process that calls itself %q has taken it: give each replica its own POD_NAME", h)
	}
	return ""
}

// micro is a time as Leases have it; with more digits it would not be equal to what comes back.
func micro(t time.Time) *metav1.MicroTime {
	return &metav1.MicroTime{Time: t.Truncate(time.Microsecond)}
}
