package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

// leads waits and checks which replica leads then; "" is none.
func (g *group) leads(after time.Duration, name string) {
	g.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := g.serving["/0"]; got != name {
		g.t.Fatalf("%q leads, want %q", got, name)
	}
}

// stop ends replicas and checks that they returned no error.
func (g *group) stop(replicas ...*member) {
	g.t.Helper()
	for _, r := range replicas {
		r.end()
	}
	for _, r := range replicas {
		if err := <-r.result; err != nil {
			g.t.Errorf("%s: %v", r.identity, err)
		}
	}
}

// The first replica leads for some minutes. When it is stopped it finishes its work; the next one leads milliseconds later.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		a := e.start("a", "", 0, func(r *member) { r.tail = 20 * time.Second })
		e.leads(100*time.Millisecond, "a")
		b, c := e.start("b", "", 0, nil), e.start("c", "", 0, nil)
		e.leads(5*time.Minute, "a")
		a.end()
		e.leads(19*time.Second, "a")
		if err := <-a.result; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		next := e.serving["/0"]
		if gap := e.began[next].Sub(e.ended["a"]); gap > 100*time.Millisecond {
			t.Errorf("the next replica began %s after the work of the first one had ended", gap)
		}
		e.stop(b, c)
		if holder(e.server.lease("lease")) != "" || ptr.Deref(e.server.lease("lease").Spec.LeaseTransitions, 0) == 0 {
			t.Errorf("the Lease is %+v", e.server.lease("lease").Spec)
		}
	})
}

// Without the permission to watch a hand-over takes no longer than the retry period.
func TestHandOverBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		a := e.start("a", "", 0, nil)
		e.leads(time.Second, "a")
		b := e.start("b", "", 0, func(r *member) { r.line.blind = true })
		e.leads(time.Minute, "a")
		e.stop(a)
		e.leads(2*time.Second+100*time.Millisecond, "b")
		e.stop(b)
	})
}

// A leader whose line is cut stops before another one begins.
func TestLineCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		a := e.start("a", "", 0, nil)
		e.leads(time.Second, "a")
		b := e.start("b", "", 0, nil)
		e.leads(time.Minute, "a")
		cut := time.Now()
		close(a.line.broken)
		err := <-a.result
		var lost *LostError
		if !errors.As(err, &lost) {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(cut); took > 10*time.Second || took < 7*time.Second {
			t.Errorf("it led on for %s", took)
		}
		e.leads(9*time.Second, "b")
		if took := e.began["b"].Sub(cut); took > 16*time.Second {
			t.Errorf("the next one began after %s", took)
		}
		e.stop(b)
	})
}

// A Pod of a StatefulSet that is replaced has the name of the one before, which may still lead on a node that cannot be
// reached: its successor waits as any other replica does.
func TestSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		a := e.start("a", "", 0, nil)
		e.leads(time.Minute, "a")
		second := e.start("a", "", 0, nil)
		e.leads(time.Minute, "a") // enter fails the test if both lead
		close(a.line.broken)
		e.leads(20*time.Second, "a")
		if err := <-a.result; err == nil {
			t.Error("the first one still leads")
		}
		e.stop(second)
	})
}

// The Lease names the Pod, for commands that find the leader. Labels that another client has set do not count.
func TestHolderName(t *testing.T) {
	l := newLease(Options{Pod: "operator-0", Duration: 15 * time.Second})
	claimed := l.claim(&coordinationv1.Lease{}, time.Now())
	taken := claimed.DeepCopy()
	taken.Spec.HolderIdentity = ptr.To("thief")
	for _, test := range []struct {
		lease            *coordinationv1.Lease
		name, annotation string
	}{
		{claimed, "operator-0", "operator-0"},
		{taken, "thief", "operator-0"},
		{released(claimed, time.Now()), "", ""},
		{&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("b")}}, "b", ""},
	} {
		if name, annotation := HolderName(test.lease), test.lease.Annotations["shell-operator/pod"]; name != test.name ||
			annotation != test.annotation {
			t.Errorf("held by %q (annotation %q), want %q (%q)", name, annotation, test.name, test.annotation)
		}
	}
}

// A process that was stopped while it acquired the Lease does not lead by that: it acquires the Lease again.
func TestSlowAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newGroup(t)
		stopped := 3
		a := e.start("a", "", 0, func(r *member) {
			began, ahead := time.Now(), time.Duration(0)
			r.fence.now = func() moment {
				if time.Since(began) < time.Minute && stopped > 0 { // between the two clock readings of an acquisition
					stopped--
					ahead += 11 * time.Second
				}
				now := ownership.At(time.Now())
				now.Wall = now.Wall.Add(ahead)
				return now
			}
		})
		e.leads(10*time.Second, "a")
		e.leads(time.Minute, "a")
		e.stop(a)
		if stopped != 0 || ptr.Deref(e.server.lease("lease").Spec.LeaseTransitions, 0) != 0 {
			t.Errorf("%d stops are left, the Lease is %+v", stopped, e.server.lease("lease").Spec)
		}
	})
}

func TestDurations(t *testing.T) {
	for _, o := range []Options{
		{Duration: 10 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second},
		{Duration: 15 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 2 * time.Second},
		{Duration: 500 * time.Millisecond, RenewDeadline: 200 * time.Millisecond, RetryPeriod: 100 * time.Millisecond},
		{},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
