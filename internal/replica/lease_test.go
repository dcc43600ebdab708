package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/shell-operator/shell-operator/internal/replica/ownership"
)

// election has replicas that lead until they are stopped.
type election struct {
	t      *testing.T
	server *server

	mu      sync.Mutex
	leading []string
	// began is when each replica began to lead, ended when it stopped.
	began, ended map[string]time.Time
}

func newElection(t *testing.T) *election {
	return &election{t: t, server: newServer(), began: map[string]time.Time{}, ended: map[string]time.Time{}}
}

// replica is one of them. end is the polite way, as by SIGTERM; result has what Run returned.
type replica struct {
	name   string
	line   *line
	lease  *Lease
	end    context.CancelFunc
	result chan error
	// tail is how long its last run takes after the end.
	tail time.Duration
}

func (e *election) replica(name string, change func(*replica)) *replica {
	r := &replica{name: name, line: newLine(e.server), result: make(chan error, 1)}
	r.lease = newLease(Options{
		Namespace: "n", Name: "lease", Pod: name,
		Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}, r.line)
	if change != nil {
		change(r)
	}
	ctx, end := context.WithCancel(e.t.Context())
	r.end = end
	done := make(chan struct{})
	e.t.Cleanup(func() { end(); <-done })
	go func() {
		defer close(done)
		r.result <- r.lease.Run(ctx, func(held context.Context) {
			e.enter(name)
			defer e.leave(name)
			select {
			case <-ctx.Done():
			case <-held.Done():
				return
			}
			select { // running hooks finish first
			case <-time.After(r.tail):
			case <-held.Done():
			}
		})
	}()
	return r
}

func (e *election) enter(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading = append(e.leading, name)
	e.began[name] = time.Now()
	if len(e.leading) > 1 {
		e.t.Errorf("%v lead at the same time", e.leading)
	}
}

func (e *election) leave(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, n := range e.leading {
		if n == name {
			e.leading = append(e.leading[:i], e.leading[i+1:]...)
		}
	}
	e.ended[name] = time.Now()
}

// expect waits and checks which replica leads then; "" is none.
func (e *election) expect(after time.Duration, name string) {
	e.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := strings.Join(e.leading, ","); got != name {
		e.t.Fatalf("%q leads, want %q", got, name)
	}
}

// stop ends replicas and checks that they returned no error.
func (e *election) stop(replicas ...*replica) {
	e.t.Helper()
	for _, r := range replicas {
		r.end()
	}
	for _, r := range replicas {
		if err := <-r.result; err != nil {
			e.t.Errorf("%s: %v", r.name, err)
		}
	}
}

// The first replica leads for an hour. When it is stopped it finishes its work; the next one leads milliseconds later.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", func(r *replica) { r.tail = 20 * time.Second })
		e.expect(100*time.Millisecond, "a")
		b, c := e.replica("b", nil), e.replica("c", nil)
		e.expect(time.Hour, "a")
		a.end()
		e.expect(19*time.Second, "a")
		if err := <-a.result; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		next := e.leading[0]
		if gap := e.began[next].Sub(e.ended["a"]); gap > 100*time.Millisecond {
			t.Errorf("the next replica began %s after the work of the first one had ended", gap)
		}
		e.stop(b, c)
		if holder(e.server.leases["lease"]) != "" || ptr.Deref(e.server.leases["lease"].Spec.LeaseTransitions, 0) == 0 {
			t.Errorf("the Lease is %+v", e.server.leases["lease"].Spec)
		}
	})
}

// Without the permission to watch a hand-over takes no longer than the retry period.
func TestHandOverBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", nil)
		e.expect(time.Second, "a")
		b := e.replica("b", func(r *replica) { r.line.blind = true })
		e.expect(time.Minute, "a")
		e.stop(a)
		e.expect(2*time.Second+100*time.Millisecond, "b")
		e.stop(b)
	})
}

// A leader whose line is cut stops before another one begins.
func TestLineCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", nil)
		e.expect(time.Second, "a")
		b := e.replica("b", nil)
		e.expect(time.Minute, "a")
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
		e.expect(9*time.Second, "b")
		if took := e.began["b"].Sub(cut); took > 16*time.Second {
			t.Errorf("the next one began after %s", took)
		}
		e.stop(b)
	})
}

// A Lease that is taken, cleared or deleted by another client ends the leader immediately.
func TestTaken(t *testing.T) {
	for name, change := range map[string]func(*coordinationv1.Lease) *coordinationv1.Lease{
		"taken": func(l *coordinationv1.Lease) *coordinationv1.Lease {
			l.Spec.HolderIdentity = ptr.To("thief")
			return l
		},
		"cleared": func(l *coordinationv1.Lease) *coordinationv1.Lease {
			l.Spec.HolderIdentity = nil
			return l
		},
		"deleted": func(*coordinationv1.Lease) *coordinationv1.Lease { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newElection(t)
				a := e.replica("a", nil)
				e.expect(11*time.Second, "a")
				e.server.change("lease", change)
				e.expect(100*time.Millisecond, "")
				var lost *LostError
				if err := <-a.result; !errors.As(err, &lost) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A Pod of a StatefulSet that is replaced has the name of the one before, which may still lead on a node that cannot be
// reached: its successor waits as any other replica does.
func TestSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", nil)
		e.expect(time.Minute, "a")
		second := e.replica("a", nil)
		e.expect(time.Minute, "a") // enter fails the test if both lead
		close(a.line.broken)
		e.expect(20*time.Second, "a")
		if err := <-a.result; err == nil {
			t.Error("the first one still leads")
		}
		e.stop(second)
	})
}

// The Lease names the Pod, for commands that find the leader. Labels that another client has set do not count.
func TestHolderName(t *testing.T) {
	l := newLease(Options{Pod: "operator-0", Duration: 15 * time.Second}, nil)
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

// An API server that was slow before the request that acquires the Lease does not shorten the leadership.
func TestSlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", func(r *replica) { r.line.slowRead = 30 * time.Second })
		e.expect(time.Minute, "a")
		e.expect(time.Minute, "a")
		e.stop(a)
	})
}

// A process that was stopped while it acquired the Lease does not lead by that: it acquires the Lease again.
func TestSlowAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		stopped := 3
		a := e.replica("a", func(r *replica) {
			began, ahead := time.Now(), time.Duration(0)
			r.lease.fence.now = func() moment {
				if time.Since(began) < time.Minute && stopped > 0 { // between the two clock readings of an acquisition
					stopped--
					ahead += 11 * time.Second
				}
				now := ownership.At(time.Now())
				now.Wall = now.Wall.Add(ahead)
				return now
			}
		})
		e.expect(10*time.Second, "a")
		e.expect(time.Minute, "a")
		e.stop(a)
		if stopped != 0 || ptr.Deref(e.server.leases["lease"].Spec.LeaseTransitions, 0) != 0 {
			t.Errorf("%d stops are left, the Lease is %+v", stopped, e.server.leases["lease"].Spec)
		}
	})
}

// A label of another client does not end the leader, and is kept.
func TestLabelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(t)
		a := e.replica("a", nil)
		e.expect(time.Second, "a")
		e.server.change("lease", func(l *coordinationv1.Lease) *coordinationv1.Lease {
			l.Labels = map[string]string{"of": "them"}
			return l
		})
		e.expect(time.Minute, "a")
		e.stop(a)
		if e.server.leases["lease"].Labels["of"] != "them" {
			t.Error("the label was removed")
		}
	})
}

// Replicas come, go, die and lose their lines at random. Never do two lead (see enter), and in the end one does.
func TestAtMostOne(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				e := newElection(t)
				var alive []*replica
				for n := range 60 {
					switch {
					case len(alive) < 2 || len(alive) < 5 && random.IntN(3) == 0:
						alive = append(alive, e.replica(fmt.Sprint("r", n), func(r *replica) {
							r.tail = time.Duration(random.IntN(5000)) * time.Millisecond
							r.line.delay = time.Duration(random.IntN(400)) * time.Millisecond
							r.line.blind = random.IntN(4) == 0
						}))
					case random.IntN(2) == 0:
						i := random.IntN(len(alive))
						alive[i].end()
						alive = append(alive[:i], alive[i+1:]...)
					default:
						i := random.IntN(len(alive))
						close(alive[i].line.broken)
						alive = append(alive[:i], alive[i+1:]...)
					}
					time.Sleep(time.Duration(random.IntN(20000)) * time.Millisecond)
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				e.mu.Lock()
				if len(e.leading) != 1 {
					t.Errorf("%v lead in the end", e.leading)
				}
				e.mu.Unlock()
			})
		})
	}
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
