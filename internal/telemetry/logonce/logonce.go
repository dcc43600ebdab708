// Package logonce suppresses repeated log records: a condition is logged when it begins, changes or ends, not on each retry.
//
// Callers may rely on this:
//   - The zero value of a Dedup is ready, and safe for concurrent use.
//   - Memory is bounded: a Dedup that holds too many conditions forgets all of them, so that some are logged again, and keeps hashes of
//     long texts.
package logonce

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxConditions is far above what one component has at a time; it bounds keys that clients choose.
const maxConditions = 1000

// Dedup remembers which conditions have been logged.
type Dedup struct {
	// Every, if positive, makes an unchanged condition due again after this time.
	Every time.Duration

	mu     sync.Mutex // guards what follows
	logged map[string]condition
}

type condition struct {
	state      string
	at         time.Time
	suppressed int
}

// maxText is the length from which a hash is kept instead of a text.
const maxText = 256

func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return string(hash[:])
}

// Due reports whether to log the condition key, which is now in this state, and how many reports of the state that was
// logged last have been suppressed.
func (d *Dedup) Due(key, state string) (suppressed int, due bool) {
	key, state = bounded(key), bounded(state)
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.logged[key]
	if known && last.state == state && (d.Every <= 0 || now.Sub(last.at) < d.Every) {
		last.suppressed++
		d.logged[key] = last
		return 0, false
	}
	if d.logged == nil || !known && len(d.logged) >= maxConditions {
		d.logged = map[string]condition{}
	}
	d.logged[key] = condition{state: state, at: now}
	return last.suppressed, true
}

// End forgets a condition. It reports whether one was logged, so that its end is worth a record, too.
func (d *Dedup) End(key string) (logged bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key = bounded(key)
	_, logged = d.logged[key]
	delete(d.logged, key)
	return logged
}
