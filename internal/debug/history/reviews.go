package history

// reviewed is a binding whose runs answer the API server.
type reviewed struct{ hook, binding string }

// review counts the failures of a binding since its last success. It requires mu.
func (h *History) review(r *Run) {
	of := reviewed{r.Hook, r.Binding}
	switch {
	case r.Status.Bad():
		h.failing[of]++
	case r.Status == Succeeded:
		delete(h.failing, of)
	}
}

// FailedReviews returns how many of the last reviews of a binding have failed.
func (h *History) FailedReviews(hook, binding string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing[reviewed{hook, binding}]
}

// ForgetReviews drops the failures: after a reload, other versions of hooks answer.
func (h *History) ForgetReviews() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.failing)
}
