package effect

import "time"

// Result is what a run requests in its result file: when its contexts are delivered again, and what people see of it. The zero
// value requests nothing.
type Result struct {
	// RequeueAfter delivers what the run contained again after this time; 0 means never. Requeue, for single objects, precedes it.
	RequeueAfter time.Duration
	Requeue      []Requeue
	// KeepFinalizer keeps the finalizer of objects that are being deleted: their Deleting is delivered again instead of a requeue.
	KeepFinalizer bool
	// RetryAfter replaces the back-off after a failure; nil means not set.
	RetryAfter *time.Duration
	// GiveUp is the reason to make no further attempt; empty means not set.
	GiveUp string
	// Message is shown to people. It has at most MaxMessage bytes, and so has GiveUp.
	Message string
}

// MaxMessage is the number of bytes after which a Message is cut.
const MaxMessage = 1 << 10

// Requeue requests another run for one object of the run's contexts.
type Requeue struct {
	Namespace, Name string
	After           time.Duration
}
