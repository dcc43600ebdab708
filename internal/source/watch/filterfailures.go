package watch

import (
	"log/slog"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// filterFailures are the objects for which a binding's filter fails. Filters run concurrently, so it has its own lock.
type filterFailures struct {
	// logged makes one record a minute of all failures.
	logged logonce.Dedup

	mu sync.Mutex
	// failing has, by key, the objects whose latest result is a failure, and the error.
	failing map[string]string
}

func newFilterFailures() *filterFailures {
	return &filterFailures{logged: logonce.Dedup{Every: time.Minute}, failing: map[string]string{}}
}

// failed records that the filter failed for o.
func (f *filterFailures) failed(log *slog.Logger, o *object, err error) {
	f.mu.Lock()
	f.failing[o.key] = err.Error()
	f.mu.Unlock()
	if before, due := f.logged.Due("filter", ""); due {
		log.Error("jqFilter failed, the object's filterResult is null",
			"namespace", o.namespace, "name", o.name, "kind", o.kind, "failures", before+1, "error", err.Error())
	}
}

// forget drops an object that was deleted, or for which the filter has succeeded.
func (f *filterFailures) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failing, key)
}

// of counts the objects of a set for which the filter fails now, and returns one of the errors.
func (f *filterFailures) of(has func(key string) bool) (n int, example string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, text := range f.failing {
		if has(key) {
			n++
			if example == "" || text < example {
				example = text
			}
		}
	}
	return n, example
}
