package hook

import "time"

// Retry is a retry policy as configured. Fields that are not set come from the policy of the hook, then from the operator's defaults.
type Retry struct {
	// MinDelay and MaxDelay bound the back-off; nil means not set.
	MinDelay, MaxDelay *time.Duration
	// Limit is the number of attempts, the first one included; 0 means no limit, nil not set.
	Limit *int
	// Exhausted is the fate of a task whose last attempt has failed; empty means not set.
	Exhausted Exhausted
}

// Exhausted is the action for an exhausted task.
type Exhausted string

const (
	Park Exhausted = "park"
	Drop Exhausted = "drop"
)

// Policy is the effective policy of a binding. Its values are comparable: tasks with a Given policy join if the policies are equal.
type Policy struct {
	// Given reports that the binding or its hook has a retry. Without one only the delays of the operator apply, and allowFailure
	// decides Limit and Exhausted.
	Given              bool
	MinDelay, MaxDelay time.Duration
	// Limit is the number of attempts; 0 means no limit.
	Limit     int
	Exhausted Exhausted
}

// Policy returns the effective policy of a binding. The delays given are the operator's defaults; they widen where they contradict a
// delay that is set. OnStart gets the delays of the hook's policy and never a limit.
func (h *Hook) Policy(a Address, minDelay, maxDelay time.Duration) Policy {
	b := h.At(a)
	p := Policy{MinDelay: minDelay, MaxDelay: maxDelay, Exhausted: Park}
	r := h.Settings.Retry.Override(b.Retry)
	if r != nil {
		p.Given = true
		p.MinDelay, p.MaxDelay = r.delays(minDelay, maxDelay)
	}
	switch {
	case b.AllowFailure:
		p.Limit, p.Exhausted = 1, Drop
	case r == nil || a.Kind == OnStart:
	default:
		if r.Limit != nil {
			p.Limit = *r.Limit
		}
		if r.Exhausted != "" {
			p.Exhausted = r.Exhausted
		}
	}
	return p
}

// Override returns r with the fields that are set in by. Both may be nil.
func (r *Retry) Override(by *Retry) *Retry {
	switch {
	case by == nil:
		return r
	case r == nil:
		return by
	}
	merged := *r
	if by.MinDelay != nil {
		merged.MinDelay = by.MinDelay
	}
	if by.MaxDelay != nil {
		merged.MaxDelay = by.MaxDelay
	}
	if by.Limit != nil {
		merged.Limit = by.Limit
	}
	if by.Exhausted != "" {
		merged.Exhausted = by.Exhausted
	}
	return &merged
}

// delays fills in the defaults, which yield to what is set.
func (r *Retry) delays(least, most time.Duration) (time.Duration, time.Duration) {
	switch {
	case r.MinDelay != nil && r.MaxDelay != nil:
		return *r.MinDelay, *r.MaxDelay
	case r.MinDelay != nil:
		return *r.MinDelay, max(most, *r.MinDelay)
	case r.MaxDelay != nil:
		return min(least, *r.MaxDelay), *r.MaxDelay
	}
	return least, most
}
