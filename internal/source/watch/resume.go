package watch

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// resumed is the response of a watch. One that ends without an error, and soon, before anything has arrived, is requested again
// immediately, from the same version: the API server ends the watches of a kind whenever its CRD changes, as by a patch of
// spec.conversion. The reflector takes an end within a second for a failure. It would back off, for up to 8 s, and list, and snapshots
// would be as old.
type resumed struct {
	ctx  context.Context
	open func() (io.ReadCloser, error)
	// since is when the last request was answered, arrived is set with the first byte. attempts counts the further requests.
	since    time.Time
	arrived  bool
	attempts int

	mu     sync.Mutex // guards what follows
	body   io.ReadCloser
	closed bool
}

const (
	// soon is the time within which the end of a watch counts as a failure of it.
	soon = time.Second
	// mostResumed bounds the requests, of which all but the first wait: firstResumed, and then twice as long each time.
	mostResumed  = 6
	firstResumed = 20 * time.Millisecond
)

func (r *resumed) Read(p []byte) (int, error) {
	for {
		r.mu.Lock()
		body := r.body
		r.mu.Unlock()
		n, err := body.Read(p)
		r.arrived = r.arrived || n > 0
		if !errors.Is(err, io.EOF) || r.arrived || !r.resume() {
			return n, err
		}
	}
}

// resume sends the request again. An error is that of an ended watch, too: the reflector does what is to be done.
func (r *resumed) resume() bool {
	if time.Since(r.since) >= soon || r.attempts == mostResumed {
		return false
	}
	if r.attempts++; r.attempts > 1 {
		select {
		case <-time.After(firstResumed << (r.attempts - 2)):
		case <-r.ctx.Done():
			return false
		}
	}
	next, err := r.open()
	if err != nil {
		return false
	}
	r.since = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = next.Close()
		return false
	}
	_ = r.body.Close()
	r.body = next
	return true
}

func (r *resumed) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.body.Close()
}
