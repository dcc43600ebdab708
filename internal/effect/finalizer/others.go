package finalizer

import (
	"maps"
	"slices"
	"time"
)

// renewal is the interval at which an operator renews its heartbeat.
const renewal = 3 * time.Minute

// retryRenewal is the interval after a renewal that failed.
const retryRenewal = 30 * time.Second

// silence is how long a heartbeat has to stay unchanged until its operator counts as gone: two renewals, and a retry, since this process
// does not notice that the API server was down between two renewals of its own.
const silence = 2*renewal + retryRenewal

// others is what this process knows of the other operators with its instance name. It decides by changes of their heartbeats and by its own
// steady clock alone, so the clocks of other machines do not matter. A time without an observation counts for nothing: the others may have
// been cut off as well.
type others struct {
	known map[string]*other
	// last is the time of the last observation, which was of version; zero before the first one.
	last    time.Time
	version uint64
	// missed reports that an observation has failed since.
	missed bool
}

// other is an operator.
type other struct {
	// heartbeat is the text that was seen last; empty after it was removed. A restart may be under way then.
	heartbeat string
	// since is when it changed, or the first observation after an interruption.
	since time.Time
	// alive reports that the heartbeat has changed while this process was observing it.
	alive bool
}

// observe compares the heartbeats in the record, by operator, with those seen before. It reports whether an operator has appeared. The
// state of an older version of the record, as from a watch that lags behind, is ignored.
func (o *others) observe(at time.Time, version uint64, heartbeats map[string]string) (appeared bool) {
	if version < o.version {
		return false
	}
	first, interrupted := o.last.IsZero(), o.missed || at.Sub(o.last) > renewal+renewal/2 // the latter as of a process that was stopped
	o.last, o.version, o.missed = at, version, false
	for name, heartbeat := range heartbeats {
		is := o.known[name]
		switch {
		case is == nil:
			o.known[name] = &other{heartbeat: heartbeat, since: at, alive: !first}
			appeared = appeared || !first
		case is.heartbeat != heartbeat:
			appeared = appeared || is.heartbeat == ""
			*is = other{heartbeat: heartbeat, since: at, alive: true}
		case interrupted:
			is.since = at
		}
	}
	for name, is := range o.known {
		_, there := heartbeats[name]
		switch {
		case there:
		case !interrupted && o.gone(is):
			delete(o.known, name)
		case is.heartbeat != "" || interrupted:
			*is = other{since: at}
		}
	}
	return appeared
}

func (o *others) gone(is *other) bool { return o.last.Sub(is.since) >= silence }

// runs reports whether an operator certainly does.
func (o *others) runs(name string) bool {
	is := o.known[name]
	return is != nil && is.alive && !o.gone(is)
}

// unheard reports whether one of them may still respond.
func (o *others) unheard(now time.Time) bool {
	for _, is := range o.known {
		if is.heartbeat != "" && !is.alive && now.Sub(is.since) < responseTime {
			return true
		}
	}
	return false
}

// Other is another operator with the same instance name that is not known to be gone.
type Other struct {
	// Name is that in its heartbeat.
	Name string
	// Alive reports that it has renewed its heartbeat, or has written it, while this operator was running.
	Alive bool
}

// present are the others that are not known to be gone.
func (o *others) present() (all []Other) {
	for _, name := range slices.Sorted(maps.Keys(o.known)) {
		if is := o.known[name]; !o.gone(is) {
			all = append(all, Other{name, is.alive})
		}
	}
	return all
}
