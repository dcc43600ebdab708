package effect

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Result has the requests of a run's result file: when its contexts are delivered again, and what people see of it. The zero
// value requests nothing.
type Result struct {
	// RequeueAfter delivers what the run contained again after this time; 0 means never. Requeue, for single objects, precedes it.
	RequeueAfter metav1.Duration `json:"requeueAfter,omitzero"`
	Requeue      []Requeue       `json:"requeue,omitempty"`
	// KeepFinalizer keeps the finalizer of objects that are being deleted: their Deleting is delivered again instead of a requeue.
	KeepFinalizer bool `json:"keepFinalizer,omitempty"`
	// RetryAfter replaces the back-off after a failure; nil means not set.
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty"`
	// GiveUp is the reason to make no further attempt; empty means not set.
	GiveUp string `json:"giveUp,omitempty"`
	// Message is shown to people. It has at most MaxMessage bytes, and so has GiveUp.
	Message string `json:"message,omitempty"`
}

// MaxMessage is the number of bytes after which a Message is cut.
const MaxMessage = 1 << 10

// Requeue requests another run for one object of the run's contexts.
type Requeue struct {
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	After     metav1.Duration `json:"after"`
}
