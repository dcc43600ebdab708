package ownership

import (
	"fmt"
	"slices"
	"time"
)

// Answer handles the answer of a request that was started at a moment.
func (m *Machine) Answer(a Action, started, now Moment, r Answer) {
	switch a.Op {
	case List, Get:
		m.answerRead(a, now, r)
	case Create, Take:
		m.answerTake(a, started, now, r)
	case Renew:
		m.answerRenew(started, now, r)
	case Clear, Delete:
		m.answerRemoval(a, now, r)
	}
}

func (m *Machine) answerRead(a Action, now Moment, r Answer) {
	if a.Op == Get && m.doubted {
		m.answerDoubt(now, r)
		return
	}
	switch {
	case a.Op == List && r.Result == Done:
		m.seeAll(now, r.Leases)
	case a.Op == Get && r.Result == Missing:
		m.forget(a.Lease.Name)
	case a.Op == Get && r.Result == Done:
		m.see(now, r.Lease)
	default:
		m.later(now)
		return
	}
	if a.Op == List {
		m.listing = false
	} else {
		m.getting = false
	}
	if !m.listing && !m.getting {
		m.current, m.polled = true, now.Steady
	}
}

// later delays the next request after a failure.
func (m *Machine) later(now Moment) { m.retry = now.Steady.Add(m.c.RetryPeriod) }

func (m *Machine) answerTake(a Action, started, now Moment, r Answer) {
	m.current = false
	switch {
	case r.Result == Changed, r.Result == Missing: // another process was faster
		m.listing, m.getting = true, true
		return
	case r.Result != Done: // it may have been executed: only a view that was read later counts
		m.listing, m.getting = true, true
		m.later(now)
		return
	case now.Since(started) >= m.c.RenewDeadline: // the Lease may have run out already
		m.see(now, r.Lease)
		return
	}
	m.shard = slices.Index(m.c.Names, a.Lease.Name)
	m.held, m.renewed, m.tried = r.Lease, started, started.Steady
	m.fresh, m.taken = a.Op == Create || a.Lease.Holder == m.c.Identity || a.Lease.Division != m.c.Division, now.Steady
	m.phase, m.listing, m.getting = Checking, true, m.c.Elected != ""
	m.woken, m.doubted, m.returning = false, false, false
	m.retry = time.Time{}
}

func (m *Machine) answerRenew(started, now Moment, r Answer) {
	switch {
	case now.Since(m.renewed) >= m.c.RenewDeadline: // Next ends it
	case r.Result == Done:
		m.held, m.renewed = r.Lease, started
	case r.Result == Changed:
		m.doubted = true
	case r.Result == Missing:
		m.lose("another client has deleted it")
	}
}

// answerDoubt handles the state of the own Lease, which has changed.
func (m *Machine) answerDoubt(now Moment, r Answer) {
	switch {
	case r.Result == Missing:
		m.lose("another client has deleted it")
	case r.Result != Done:
		if m.returning || m.stopping && (m.idle || !m.served) {
			m.released(now, false)
			return
		}
		m.doubted = false // the next renewal fails again
	case r.Lease.Holder == "":
		m.lose("another client has cleared its holder")
	case r.Lease.Holder != m.c.Identity:
		m.lose(fmt.Sprintf("%q has taken it", r.Lease.Holder))
	default: // a renewal of ours without an answer, or the label of another
		m.held, m.doubted, m.woken = r.Lease, false, true
	}
}

func (m *Machine) answerRemoval(a Action, now Moment, r Answer) {
	switch {
	case m.phase == Standby: // what a request without an answer has left
		m.listing, m.getting, m.current = true, true, false
		if r.Result != Done {
			m.later(now)
		}
	case a.Lease.Name == m.held.Name && r.Result == Changed:
		m.doubted = true
	case a.Lease.Name == m.held.Name:
		m.released(now, r.Result == Done || r.Result == Missing)
	case r.Result == Done, r.Result == Missing, r.Result == Denied && m.c.Elected == "":
		m.forget(a.Lease.Name)
	default: // it may live
		m.listing, m.getting = true, m.c.Elected != ""
		if r.Result != Changed {
			m.later(now)
		}
	}
}

// released ends the time with a Lease that is given back.
func (m *Machine) released(now Moment, done bool) {
	if m.stopping {
		m.phase, m.shard = Ended, -1
		return
	}
	m.standBy()
	if !done {
		m.later(now)
	}
}

// lose handles the loss of the Lease. Before anything was prepared for its shard, the process is a standby again.
func (m *Machine) lose(reason string) {
	switch {
	case m.phase == Checking && !m.stopping:
		m.standBy()
	case m.phase == Checking, m.idle, m.stopping && !m.served:
		m.phase, m.shard = Ended, -1
	default:
		m.phase, m.lost = Ended, reason
	}
}

// Led ends the time with the Lease of a shard: a process of leader election serves beside it.
func (m *Machine) Led(holder string) {
	if m.phase == Serving || m.phase == Settling {
		m.lose(fmt.Sprintf("%q leads, and a leader serves all shards", holder))
	}
}

func (m *Machine) standBy() {
	m.phase, m.shard, m.held = Standby, -1, Lease{}
	m.current, m.listing, m.getting = false, true, true
	m.doubted, m.returning, m.woken = false, false, false
}

// see remembers a state of a Lease.
func (m *Machine) see(now Moment, l Lease) {
	s := m.sight(l.Name)
	if !s.exists || s.Version != l.Version {
		s.since = now.Steady
	}
	s.Lease, s.exists = l, true
}

func (m *Machine) forget(name string) {
	*m.sight(name) = sight{Lease: Lease{Name: name}}
	m.others = slices.DeleteFunc(m.others, func(s sight) bool { return !s.exists })
}

// seeAll remembers the Leases with the label. That of leader election is not among them.
func (m *Machine) seeAll(now Moment, all []Lease) {
	gone := func(s *sight) {
		listed := slices.ContainsFunc(all, func(l Lease) bool { return l.Name == s.Name })
		s.exists = s.exists && (listed || s.Name == m.c.Elected || m.c.Elected == "" && s.Name == m.c.Names[0])
	}
	for i := range m.own {
		gone(&m.own[i])
	}
	for i := range m.others {
		gone(&m.others[i])
	}
	m.others = slices.DeleteFunc(m.others, func(s sight) bool { return !s.exists })
	for _, l := range all {
		m.see(now, l)
	}
}

// sight returns the place of a Lease in the view.
func (m *Machine) sight(name string) *sight {
	if i := slices.Index(m.c.Names, name); i >= 0 {
		return &m.own[i]
	}
	i := slices.IndexFunc(m.others, func(s sight) bool { return s.Name == name })
	if i < 0 {
		i = len(m.others)
		m.others = append(m.others, sight{Lease: Lease{Name: name}})
	}
	return &m.others[i]
}
