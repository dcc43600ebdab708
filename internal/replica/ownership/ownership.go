// Package ownership decides which Lease a process takes, when it serves what the Lease stands for, and how it ends. It is a pure state
// machine: it sends no request, reads no clock, and starts no goroutine. Package replica drives it; the tests explore it.
//
// Callers may rely on this, if clock rates of machines differ by less than Lease duration : renewal deadline:
//   - At most one process serves a shard at any time, also if Leases are deleted.
//   - At most one division is served at any time, and never beside a leader of leader election, if no Lease is deleted meanwhile.
//   - When faults have ended and there are enough processes, each shard is served within two Lease durations and the time of the requests.
//
// Leader election is a division of one Lease. It differs in one rule, Config.Settle: its new Lease is served immediately.
package ownership

import (
	"iter"
	"time"
)

// Moment is a time by the monotonic clock and by the wall clock.
type Moment struct{ Steady, Wall time.Time }

// At returns the moment of a time with a monotonic reading.
func At(t time.Time) Moment { return Moment{Steady: t, Wall: t.Round(0)} }

// Since is the time that has passed, which is the larger of both: the monotonic clock stops while a machine is suspended, the wall clock
// may be set back.
func (m Moment) Since(earlier Moment) time.Duration {
	return max(m.Steady.Sub(earlier.Steady), m.Wall.Sub(earlier.Wall))
}

// Lease is what the rules read of a Lease. Its times are by the clock of another machine, and are not read.
type Lease struct {
	Name string
	// UID is the uid of the object, Version its resourceVersion. They are compared for equality only.
	UID, Version string
	// Holder is the identity of a process; empty if none holds the Lease.
	Holder string
	// Division is the division of the process that took it last; empty for leader election.
	Division string
	// Duration is how long the Lease counts after a renewal; 0 is the Config's.
	Duration time.Duration
}

// Config of a Machine. All but Elected and Settle are required.
type Config struct {
	// Identity of the process. No other process has it, or will have it.
	Identity string
	// Division names how objects are divided; empty for leader election. Names are its Leases, by shard: other divisions use them, too.
	Division string
	Names    []string
	// Elected is the Lease of leader election that must have no holder while a shard is served; empty for leader election itself.
	Elected string
	// Settle makes the process serve a Lease that it has created, or that may be new, only after one Lease duration, and delete one that it
	// gives back unserved. Without it a Lease that is deleted under a process that cannot notice it is served twice.
	Settle bool
	// Duration is how long a Lease counts after a renewal, RenewDeadline how long its holder relies on one, RetryPeriod the time between two.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// First is the shard that is tried first: processes that start together try different ones.
	First int
	// Jitter returns a random duration below the limit.
	Jitter func(limit time.Duration) time.Duration
}

// Op is a kind of action.
type Op int

// Wait and End are no requests. List reads all Leases with the label. Take and Renew write the holder and the time into the Lease,
// Clear removes its holder; they fail if it has changed since Lease.Version. Delete has Lease.UID and Lease.Version as preconditions.
const (
	Wait Op = iota
	List
	Get
	Create
	Take
	Renew
	Clear
	Delete
	End
)

// Action is what the driver does next: one request, or nothing until Until or an event. End is the last one.
type Action struct {
	Op    Op
	Lease Lease
	Until time.Time
}

// Result is how a request ended.
type Result int

// Unknown: the request was not answered, or with another error, and may have been executed.
const (
	Done Result = iota
	Missing
	Changed
	Denied
	Unknown
)

// Answer is what a request returned: the Lease of Get and of a change that was done, and the Leases of List.
type Answer struct {
	Result Result
	Lease  Lease
	Leases []Lease
}

// Phase of a process.
type Phase int

// Checking: it holds a Lease, and checks that no other division is served. Settling: it holds a new Lease, and no other process serves a
// part of another division. Serving: until the end, which may be Ended after a loss, too.
const (
	Standby Phase = iota
	Checking
	Settling
	Serving
	Ended
)

// sight is a Lease as it was last seen, first at since by the steady clock.
type sight struct {
	Lease
	since time.Time
	// exists is false for a name that no Lease has.
	exists bool
}

// Machine is the state of one process. Its methods are not safe for concurrent use.
type Machine struct {
	c     *Config
	phase Phase
	// own are the Leases of the division by shard, which another one may have; others those with other names.
	own    []sight
	others []sight
	// current: the view was read completely, and nothing has changed since as far as is known. listing and getting are the reads that are
	// left until then. polled is when it was last complete.
	current, listing, getting bool
	polled                    time.Time
	watching                  bool
	// blocked: another division had a holder when the view was last complete.
	blocked bool
	// retry is the time before which no request is sent, but to renew or give back the Lease.
	retry time.Time

	// What follows is about the Lease of the shard, from Checking on.
	shard   int
	held    Lease
	renewed Moment
	// tried is the start of the last attempt to renew it.
	tried time.Time
	// fresh: the Lease may be new since taken, and an owner that has not noticed its deletion may serve until one duration later.
	fresh bool
	taken time.Time
	// woken: another client may have changed it. doubted: it has changed, and has to be read.
	woken, doubted bool
	// returning: it is given back unserved.
	returning bool
	served    bool

	// stopping: the process has been asked to end. idle: nothing that it serves runs any more.
	stopping, idle bool
	lost           string
}

// New returns the machine of a process that has just started.
func New(c *Config) *Machine {
	return &Machine{c: c, own: make([]sight, len(c.Names)), listing: true, getting: true, shard: -1}
}

// Phase returns the phase.
func (m *Machine) Phase() Phase { return m.phase }

// Read reports whether the process has read all Leases that it needs to know, at least once.
func (m *Machine) Read() bool { return !m.polled.IsZero() }

// Shard is the shard of the Lease that the process holds; -1 if it holds none.
func (m *Machine) Shard() int { return m.shard }

// Renewed is the start of the last request that has acquired or renewed the Lease: the fence counts from here.
func (m *Machine) Renewed() Moment { return m.renewed }

// Lost is why the process has lost its Lease; empty if it has not.
func (m *Machine) Lost() string { return m.lost }

// Rival is the name of a Lease of another division that had a holder when the process last read it, and because of which it does not serve.
func (m *Machine) Rival() string {
	for s := range m.foreign() {
		if m.blocked && s.Holder != "" {
			return s.Name
		}
	}
	return ""
}

// foreign are the Leases that another division has taken last.
func (m *Machine) foreign() iter.Seq[*sight] {
	return func(yield func(*sight) bool) {
		for i := range m.own {
			if s := &m.own[i]; s.exists && s.Division != m.c.Division && !yield(s) {
				return
			}
		}
		for i := range m.others {
			if s := &m.others[i]; s.exists && !yield(s) {
				return
			}
		}
	}
}

// Stop makes the process end. What it serves may run until Idle.
func (m *Machine) Stop() { m.stopping = true }

// Idle reports that nothing runs any more of what the process has served.
func (m *Machine) Idle() { m.stopping, m.idle = true, true }

// Watch reports that changes by other clients are observed from now on, or not any more. Either way some may have been missed.
func (m *Machine) Watch(on bool) {
	m.watching, m.current, m.woken = on, false, true
}

// Observe handles a change of a Lease by another client; nil is its deletion. It may be late.
func (m *Machine) Observe(now Moment, name string, lease *Lease) {
	if m.phase != Standby {
		m.woken = m.woken || m.shard >= 0 && name == m.held.Name && (lease == nil || lease.Holder != m.c.Identity)
		return
	}
	if lease == nil {
		m.forget(name)
	} else {
		m.see(now, *lease)
	}
	m.current = false
}
