// Package stream turns the bytes of lists and watches into objects, for consumers that share them.
//
// Callers may rely on this:
//   - Consumers with equal scopes share one list, one watch and the objects' bytes. A scope with a period of relists has its own.
//   - The first delivery to a consumer is a list. Between a list and the changes after it there is no gap and no overlap.
//   - A watch is not interrupted when a consumer joins or leaves. A consumer that is slow, or whose filter is, delays no other one.
//   - The changes that wait for a slow consumer are bounded: they are dropped, and a list follows.
//
// Not attempted: a store of objects, which is up to the consumers; decisions about events.
//
// Locks are taken in this order: Pool.mu, stream.mu, Subscription.mu. Consumers are called without a lock. A stream owns its reflector, the
// goroutine that lists for late consumers, and one goroutine per subscription with deliveries.
package stream

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
)

// Pool has a stream for each scope with a subscription.
type Pool struct {
	client rest.Interface
	// failed receives why a watch has failed, spawn runs a function until it returns.
	failed func(reason string)
	spawn  func(func(context.Context)) bool

	mu      sync.Mutex
	streams map[Scope]*stream
}

func NewPool(client rest.Interface, failed func(reason string), spawn func(func(context.Context)) bool) *Pool {
	return &Pool{client: client, failed: failed, spawn: spawn, streams: map[Scope]*stream{}}
}

// Join connects sub to the stream of its scope, and starts the stream if there is none.
func (p *Pool) Join(sub *Subscription) {
	p.mu.Lock()
	if sub.gone.Load() {
		p.mu.Unlock()
		return
	}
	s, ok := p.streams[sub.Scope]
	if !ok {
		s = newStream(p.client, sub.Scope, p.failed)
		p.streams[sub.Scope] = s
	}
	s.Join(sub)
	p.mu.Unlock()
	if !ok {
		p.spawn(s.run)
	}
}

// Leave ends a subscription, and its stream if it was the last one.
func (p *Pool) Leave(sub *Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.streams[sub.Scope]; !sub.gone.Swap(true) && s != nil && s.Leave(sub) {
		delete(p.streams, sub.Scope)
		s.stop()
	}
}

// Rewatch lists and watches the objects of a resource again, such as "crontabs.example.com", after the operator has changed how the API
// server serves it, which ends watches and may answer the next one a second later.
func (p *Pool) Rewatch(resource string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sc, s := range p.streams {
		if sc.GroupResource().String() == resource {
			s.hold()
		}
	}
}

// Len returns the number of streams.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}
