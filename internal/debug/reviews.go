package debug

import "sync"

// Reviewed identifies the reviews of a binding; those of conversions have the CRD as their binding, and no hook.
type Reviewed struct{ Hook, Binding string }

// manyInRow is how many reviews in a row fail until the binding is failing. An alert of metrics has the rate.
const manyInRow = 3

// Reviews knows which bindings give no verdict. The zero value has seen none.
type Reviews struct {
	mu sync.Mutex
	// inRow is how many have failed since the last success.
	inRow map[Reviewed]int
}

// Add counts a review.
func (r *Reviews) Add(of Reviewed, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !failed:
		delete(r.inRow, of)
	case r.inRow == nil:
		r.inRow = map[Reviewed]int{of: 1}
	default:
		r.inRow[of]++
	}
}

// Failing returns how many of the last reviews of a binding have failed, if it is failing; 0 otherwise.
func (r *Reviews) Failing(of Reviewed) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.inRow[of]; n >= manyInRow {
		return n
	}
	return 0
}

// Forget drops all reviews: after a reload, other versions of hooks answer.
func (r *Reviews) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inRow = nil
}
