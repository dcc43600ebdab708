package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// lastDelay is what the end of the process may take after the shutdown timeout: last spans, files, the answer of a debug client.
const lastDelay = 3 * time.Second

// Watchdog ends a shutdown in which something blocks. It knows which steps have not ended.
type Watchdog struct {
	timeout time.Duration
	expired func(blocked string)
	once    sync.Once

	mu    sync.Mutex
	steps map[string]int
}

// NewWatchdog returns a Watchdog that calls expired, with the steps that have not ended, when the process still exists a moment
// after the shutdown timeout.
func NewWatchdog(shutdownTimeout time.Duration, expired func(blocked string)) *Watchdog {
	return &Watchdog{timeout: shutdownTimeout + lastDelay, expired: expired, steps: map[string]int{}}
}

// Start begins the shutdown. Later calls do nothing.
func (w *Watchdog) Start() {
	w.once.Do(func() { time.AfterFunc(w.timeout, func() { w.expired(w.blocked()) }) })
}

// Step names what f does while it runs.
func (w *Watchdog) Step(name string, f func() error) error {
	w.count(name, 1)
	defer w.count(name, -1)
	return f()
}

// Stage is Step for what cannot fail.
func (w *Watchdog) Stage(name string, f func()) func() {
	return func() { _ = w.Step(name, func() error { f(); return nil }) }
}

func (w *Watchdog) count(name string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps[name] += by; w.steps[name] == 0 {
		delete(w.steps, name)
	}
}

func (w *Watchdog) blocked() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.steps) == 0 {
		return "closing servers and files"
	}
	return strings.Join(slices.Sorted(maps.Keys(w.steps)), ", ")
}
