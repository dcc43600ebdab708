package watch

import (
	"log/slog"
	"sync"
	"time"
)

// filterFailures counts and logs the failures of one binding's filter. It logs one record per cause when a list or a
// change has been handled, and another one each time the count has doubled. Filters run concurrently, so it has its own lock;
// it calls nothing but the log.
type filterFailures struct {
	mu sync.Mutex
	// failing has, by key, the objects whose latest result is a failure, and the error.
	failing map[string]string
	causes  map[string]*filterCause
}

// filterCause is an error of a filter.
type filterCause struct {
	// count is the number of failures since the start, reported how many of them the log has.
	count, reported int
	// latest is an object that the filter failed for, since when the first failure is not in the log.
	latest *object
	err    string
	since  time.Time
}

const (
	// maxFilterCauses bounds the distinct causes: a filter may put names of objects into its errors.
	maxFilterCauses = 20
	// reportAfter is how long a failure stays out of the log while a list is being read.
	reportAfter = 10 * time.Second
)

// failed records that the filter failed for o.
func (f *filterFailures) failed(log *slog.Logger, o *object, err error) {
	text := err.Error()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing == nil {
		f.failing, f.causes = map[string]string{}, map[string]*filterCause{}
	}
	f.failing[o.key] = text
	key := text
	if f.causes[key] == nil && len(f.causes) >= maxFilterCauses {
		key = ""
	}
	c := f.causes[key]
	if c == nil {
		c = &filterCause{}
		f.causes[key] = c
	}
	if c.count == c.reported {
		c.since = time.Now()
	}
	c.count++
	c.latest, c.err = o, text
	if time.Since(c.since) > reportAfter {
		c.write(log)
	}
}

// forget drops an object that was deleted, or for which the filter has succeeded.
func (f *filterFailures) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failing, key)
}

// report logs the causes whose count has doubled.
func (f *filterFailures) report(log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.causes {
		if c.latest != nil {
			c.write(log)
		}
	}
}

func (c *filterCause) write(log *slog.Logger) {
	o := c.latest
	c.latest = nil // keeps no object alive
	if c.count < 2*c.reported {
		return
	}
	c.reported = c.count
	log.Error("jqFilter failed, the object's filterResult is null",
		"namespace", o.namespace, "name", o.name, "kind", o.kind, "failures", c.count, "error", c.err)
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
