package http

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxCached bounds the memory that unauthenticated clients can take.
const maxCached = 4096

// cache keeps values for cacheFor. Keys are hashes, so it holds no secrets.
type cache[V any] struct {
	mu      sync.Mutex // guards entries
	entries map[[sha256.Size]byte]cached[V]
}

type cached[V any] struct {
	value V
	until time.Time
}

func newCache[V any]() *cache[V] {
	return &cache[V]{entries: map[[sha256.Size]byte]cached[V]{}}
}

// get returns the cached value, or calls find and caches its value. Errors are not cached.
func (c *cache[V]) get(key [sha256.Size]byte, find func() (V, error)) (V, error) {
	c.mu.Lock()
	known, ok := c.entries[key]
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
	if len(c.entries) >= maxCached {
		for k, v := range c.entries {
			if !now.Before(v.until) {
				delete(c.entries, k)
			}
		}
	}
	if len(c.entries) >= maxCached {
		clear(c.entries) // costs more requests, nothing else
	}
	c.entries[key] = cached[V]{value, now.Add(cacheFor)}
	return value, nil
}
