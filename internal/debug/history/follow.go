package history

import (
	"slices"
	"sync"
	"time"
)

// Kind is the kind of an Entry.
type Kind string

const (
	Began   Kind = "began"
	Printed Kind = "printed"
	Ended   Kind = "ended"
	// Lost entries could not be delivered in time; Entry.Count is how many.
	Lost Kind = "lost"
)

// Entry is an event of a run.
type Entry struct {
	Time time.Time `json:"time"`
	Hook string    `json:"hook,omitempty"`
	Run  string    `json:"run,omitempty"`
	Kind Kind      `json:"kind"`
	// Text is the reason of a run that began, a line that was printed, the outcome of a run that ended.
	Text string `json:"text,omitempty"`
	// Status is set for a run that ended.
	Status Status `json:"status,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// Bounds of the buffer of a follower.
const (
	maxWaiting      = 1000
	MaxWaitingBytes = 256 << 10
	maxLine         = 16 << 10
)

// Follower buffers the entries of a hook, or of all hooks.
type Follower struct {
	history *History
	hook    string
	// wake has a token when the buffer is not empty.
	wake chan struct{}

	mu      sync.Mutex
	waiting []Entry
	bytes   int
	lost    int
}

// Follow returns a Follower of a hook, or of all hooks when it is empty, which begins with the ends of the last runs. Close ends it.
func (h *History) Follow(hook string, last int) *Follower {
	f := &Follower{history: h, hook: hook, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	var ended []Entry
	for e := h.ended.Back(); e != nil && len(ended) < last; e = e.Prev() {
		if r := e.Value.(*Record); hook == "" || r.run.Hook == hook {
			ended = append(ended, r.endEntry())
		}
	}
	for _, e := range slices.Backward(ended) {
		f.put(e)
	}
	h.followers[f] = true
	return f
}

// Close unsubscribes.
func (f *Follower) Close() {
	f.history.mu.Lock()
	defer f.history.mu.Unlock()
	delete(f.history.followers, f)
}

// More is ready when Take has something to return.
func (f *Follower) More() <-chan struct{} { return f.wake }

// Take empties the buffer.
func (f *Follower) Take() []Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := f.waiting
	if f.lost > 0 {
		taken = append(taken, Entry{Time: time.Now(), Kind: Lost, Count: f.lost})
	}
	f.waiting, f.bytes, f.lost = nil, 0, 0
	return taken
}

// publish makes an entry for the followers, if there are any. It requires h.mu.
func (h *History) publish(entry func() Entry) {
	if len(h.followers) == 0 {
		return
	}
	e := entry()
	for f := range h.followers {
		if f.hook == "" || f.hook == e.Hook {
			f.put(e)
		}
	}
}

func (h *History) line(r *Record, line []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publish(func() Entry {
		return Entry{Time: time.Now(), Hook: r.run.Hook, Run: r.run.ID, Kind: Printed, Text: string(line[:min(len(line), maxLine)])}
	})
}

func (f *Follower) put(e Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) >= maxWaiting || f.bytes+len(e.Text) > MaxWaitingBytes {
		f.lost++
	} else {
		f.waiting = append(f.waiting, e)
		f.bytes += len(e.Text)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
