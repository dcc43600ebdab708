package ownership

import (
	"fmt"
	"slices"
	"time"
)

// Next returns what to do now. The machine expects the answer of a request before the next call.
func (m *Machine) Next(now Moment) Action {
	switch m.phase {
	case Standby:
		return m.nextStandby(now)
	case Ended:
		return Action{Op: End}
	}
	if now.Since(m.renewed) >= m.c.RenewDeadline {
		m.lose(fmt.Sprintf("it could not be renewed for %s", m.c.RenewDeadline))
		return m.Next(now)
	}
	return m.nextHolder(now)
}

func (m *Machine) nextStandby(now Moment) Action {
	if m.stopping {
		m.phase = Ended
		return Action{Op: End}
	}
	if now.Steady.Before(m.retry) {
		return Action{Op: Wait, Until: m.retry}
	}
	if m.listing || m.getting {
		return m.read()
	}
	poll := m.polled.Add(m.c.RetryPeriod)
	if (m.blocked || !m.watching) && !now.Steady.Before(poll) {
		return m.refresh()
	}
	if other, dies := m.rival(now.Steady); other != nil {
		m.blocked = true
		if left := m.unanswered(); left >= 0 { // it would keep the other division waiting, too
			return Action{Op: m.giveBack(), Lease: m.own[left].Lease}
		}
		return Action{Op: Wait, Until: earlier(poll, dies)}
	}
	shard, dies := m.free(now.Steady)
	switch {
	case shard < 0 && m.watching:
		return Action{Op: Wait, Until: dies}
	case shard < 0:
		return Action{Op: Wait, Until: earlier(poll, dies)}
	case !m.current:
		return m.refresh()
	case m.blocked: // processes of both divisions may have waited for each other
		m.blocked = false
		m.retry = now.Steady.Add(m.c.Jitter(m.c.RetryPeriod))
		m.current = false
		return m.nextStandby(now)
	case !m.own[shard].exists:
		return Action{Op: Create, Lease: Lease{Name: m.c.Names[shard]}}
	}
	return Action{Op: Take, Lease: m.own[shard].Lease}
}

// refresh reads the view again.
func (m *Machine) refresh() Action {
	m.listing, m.getting = true, true
	return m.read()
}

// read returns the next request of those that complete the view. Leader election needs its own Lease before it takes it, shards need all.
func (m *Machine) read() Action {
	if m.listing {
		return Action{Op: List}
	}
	name := m.c.Elected
	if name == "" {
		name = m.c.Names[0]
	}
	return Action{Op: Get, Lease: Lease{Name: name}}
}

func (m *Machine) nextHolder(now Moment) Action {
	renew := m.tried.Add(m.c.RetryPeriod)
	deadline := m.renewed.Steady.Add(m.c.RenewDeadline)
	switch {
	case m.doubted:
		return Action{Op: Get, Lease: m.held}
	case m.returning, m.stopping && !m.served:
		return Action{Op: m.giveBack(), Lease: m.held}
	case m.idle:
		return Action{Op: Clear, Lease: m.held}
	case m.woken, !now.Steady.Before(renew):
		m.woken, m.tried = false, now.Steady
		return Action{Op: Renew, Lease: m.held}
	}
	until := earlier(renew, deadline)
	switch m.phase {
	case Checking:
		if now.Steady.Before(m.retry) {
			return Action{Op: Wait, Until: earlier(until, m.retry)}
		}
		if m.listing || m.getting {
			return m.read()
		}
		return m.check(now)
	case Settling:
		if settled := m.taken.Add(m.c.Duration); now.Steady.Before(settled) {
			return Action{Op: Wait, Until: earlier(until, settled)}
		}
		m.phase, m.served = Serving, true
	}
	return Action{Op: Wait, Until: until}
}

// check decides about a Lease that was taken before the other ones were read. Another process may have taken one of another division; then
// it has read them after this one, or this one after it: one of both gives its Lease back.
func (m *Machine) check(now Moment) Action {
	if other, _ := m.rival(now.Steady); other != nil {
		m.returning, m.blocked = true, true
		return m.nextHolder(now)
	}
	for s := range m.foreign() {
		return Action{Op: Delete, Lease: s.Lease}
	}
	m.phase = Serving
	if m.fresh && m.c.Settle {
		m.phase = Settling
	} else {
		m.served = true
	}
	return m.nextHolder(now)
}

// giveBack is the request for a Lease that was not served. The next process must not take it for one that was.
func (m *Machine) giveBack() Op {
	if m.c.Settle {
		return Delete
	}
	return Clear
}

// rival returns a Lease of another division with a holder that is not dead, and when the first of them will be.
func (m *Machine) rival(now time.Time) (other *sight, dies time.Time) {
	for s := range m.foreign() {
		if s.Holder != "" {
			if at := m.death(s); now.Before(at) {
				other, dies = s, earlier(dies, at)
			}
		}
	}
	return other, dies
}

// free returns a shard whose Lease can be taken; -1 if there is none, and when one will be.
func (m *Machine) free(now time.Time) (shard int, dies time.Time) {
	if left := m.unanswered(); left >= 0 {
		return left, dies
	}
	for k := range m.own {
		i := (m.c.First + k) % len(m.own)
		s := &m.own[i]
		if !s.exists || s.Holder == "" {
			return i, dies
		}
		at := m.death(s)
		if !now.Before(at) {
			return i, dies
		}
		dies = earlier(dies, at)
	}
	return -1, dies
}

// unanswered returns the shard of a Lease that this process has taken by a request that was answered too late or not at all; or -1.
func (m *Machine) unanswered() int {
	return slices.IndexFunc(m.own, func(s sight) bool { return s.exists && s.Holder == m.c.Identity })
}

// death is when the holder of a Lease is dead, if it is not renewed.
func (m *Machine) death(s *sight) time.Time {
	if s.Duration > 0 {
		return s.since.Add(s.Duration)
	}
	return s.since.Add(m.c.Duration)
}

// earlier returns the first of two times, of which the zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
