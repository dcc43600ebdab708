package history

import "time"

// Minutes are the runs that ended in each of the last 60 minutes; the last one is the current minute.
type Minutes struct {
	Runs     []uint32 `json:"runs"`
	Failures []uint32 `json:"failures"`
}

// Sum is that of all minutes.
func (m *Minutes) Sum() (runs, failures uint32) {
	for i := range m.Runs {
		runs, failures = runs+m.Runs[i], failures+m.Failures[i]
	}
	return runs, failures
}

// shownMinutes is how many minutes are counted.
const shownMinutes = 60

// tally is what is counted of a hook.
type tally struct {
	// runs and failures are rings: a minute, counted since 1970, is at its remainder.
	runs, failures [shownMinutes]uint32
	// last is the latest minute with a run. The minutes from 59 before it are there.
	last int64
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// count counts a run that has ended.
func (t *tally) count(now time.Time, failed bool) {
	t.advance(minuteOf(now))
	at := t.last % shownMinutes
	t.runs[at]++
	if failed {
		t.failures[at]++
	}
}

// advance clears the minutes up to one. The clock may have been set back: then the run counts for the last minute.
func (t *tally) advance(to int64) {
	for m := max(t.last+1, to-shownMinutes+1); m <= to; m++ {
		t.runs[m%shownMinutes], t.failures[m%shownMinutes] = 0, 0
	}
	t.last = max(t.last, to)
}

// minutes are those up to now; false without a run in them.
func (t tally) minutes(now time.Time) (Minutes, bool) {
	if minuteOf(now)-t.last >= shownMinutes {
		return Minutes{}, false
	}
	t.advance(minuteOf(now))
	m := Minutes{Runs: make([]uint32, shownMinutes), Failures: make([]uint32, shownMinutes)}
	for i := range int64(shownMinutes) {
		at := (t.last + 1 + i) % shownMinutes
		m.Runs[i], m.Failures[i] = t.runs[at], t.failures[at]
	}
	return m, true
}

// tally returns that of a hook. A new one replaces those of hooks that have nothing to show any more. It requires mu.
func (h *History) tally(hook string, now time.Time) *tally {
	if t := h.tallies[hook]; t != nil {
		return t
	}
	for name, t := range h.tallies {
		if len(h.hooks[name]) == 0 && minuteOf(now)-t.last >= shownMinutes {
			delete(h.tallies, name)
		}
	}
	t := &tally{}
	h.tallies[hook] = t
	return t
}

// Minutes returns those of each hook that has had a run in the last 60 minutes.
func (h *History) Minutes() map[string]*Minutes {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, all := time.Now(), make(map[string]*Minutes, len(h.tallies))
	for name, t := range h.tallies {
		if m, any := t.minutes(now); any {
			all[name] = &m
		}
	}
	return all
}
