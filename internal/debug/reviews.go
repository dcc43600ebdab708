package debug

import (
	"sync"
	"time"
)

// Reviewed identifies the reviews of a binding; those of conversions have the CRD as their binding, and no hook.
type Reviewed struct{ Hook, Binding string }

const (
	// manyInRow is how many reviews in a row fail until the binding is failing, also when no more arrive.
	manyInRow = 5
	// recently is the time of which half of the reviews fail until the binding is failing.
	recently = 60 * time.Second
)

// Reviews knows which bindings give no verdict: their last 5 reviews have failed, or half of those of the last minute. The zero value has
// seen none.
type Reviews struct {
	mu   sync.Mutex // guards what follows
	seen map[Reviewed]*outcomes
}

// outcomes are those of the reviews of a binding.
type outcomes struct {
	// inRow is how many have failed since the last success.
	inRow int
	// seconds are the last minute, by second; each is valid only for its own time.
	seconds [int(recently / time.Second)]struct {
		at          int64
		all, failed int
	}
}

// Add counts a review.
func (r *Reviews) Add(of Reviewed, failed bool) {
	now := time.Now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[Reviewed]*outcomes{}
	}
	o := r.seen[of]
	if o == nil {
		o = &outcomes{}
		r.seen[of] = o
	}
	s := &o.seconds[now%int64(len(o.seconds))]
	if s.at != now {
		s.at, s.all, s.failed = now, 0, 0
	}
	s.all++
	if !failed {
		o.inRow = 0
		return
	}
	o.inRow++
	s.failed++
}

// Failing returns how many of the last reviews of a binding have failed, and of how many, if it is failing; 0 otherwise.
func (r *Reviews) Failing(of Reviewed) (failed, all int) {
	now := time.Now().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.seen[of]
	if o == nil {
		return 0, 0
	}
	for _, s := range o.seconds {
		if s.at > now-int64(len(o.seconds)) {
			failed, all = failed+s.failed, all+s.all
		}
	}
	switch {
	case failed > 0 && 2*failed >= all:
		return failed, all
	case o.inRow >= manyInRow:
		return o.inRow, o.inRow
	}
	return 0, 0
}

// Forget drops all reviews: after a reload, other versions of hooks answer.
func (r *Reviews) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = nil
}
