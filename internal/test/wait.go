package test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long tests wait for what should take moments, on a machine that is thirty times too busy.
const Patience = 3 * time.Minute

// Receive waits for something that is sent, or for a channel to be closed.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("no %s within %s", what, Patience)
		panic("not reached")
	}
}

// Text is a log that several goroutines write and a test reads.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
	// more is closed by the next Write; nil if nothing waits.
	more chan struct{}
}

// Write adds to the text.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
	return t.text.Write(p)
}

// String is the text so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Until waits until the text has a part so many times.
func (t *Text) Until(tb testing.TB, part string, times int) {
	tb.Helper()
	late := time.After(Patience)
	for {
		t.mu.Lock()
		n := strings.Count(t.text.String(), part)
		if t.more == nil {
			t.more = make(chan struct{})
		}
		more := t.more
		t.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-more:
		case <-late:
			tb.Fatalf("%q is not in the log %d times:\n%s", part, times, t)
		}
	}
}
