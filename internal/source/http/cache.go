package http

import (
	"crypto/sha256"
	"sync"
	"time"
)

// largestCache bounds what strangers can make us remember.
const largestCache = 4096

// cache remembers answers for a while. Keys are hashes, so it holds no secrets.
type cache[V any] struct {
	mu      sync.Mutex // guards answers
	answers map[[sha256.Size]byte]remembered[V]
}

type remembered[V any] struct {
	value V
	until time.Time
}

func newCache[V any]() *cache[V] {
	return &cache[V]{answers: map[[sha256.Size]byte]remembered[V]{}}
}

// get returns what is remembered, and otherwise what find finds. Errors are not remembered.
func (c *cache[V]) get(key [sha256.Size]byte, find func() (V, error)) (V, error) {
	c.mu.Lock()
	known, ok := c.answers[key]
	c.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.value, nil
	}
	value, err := find()
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.answers) >= largestCache {
		for k, v := range c.answers {
			if !now.Before(v.until) {
				delete(c.answers, k)
			}
		}
	}
	if len(c.answers) >= largestCache {
		clear(c.answers) // asking once more is no harm
	}
	c.answers[key] = remembered[V]{value, now.Add(answersLast)}
	return value, nil
}
