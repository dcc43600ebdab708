package watch

import (
	"context"
	"sync"

	"k8s.io/client-go/rest"
)

// pool has a stream for each scope with a subscription.
type pool struct {
	client rest.Interface
	// failed is called for each watch that fails, spawn runs a function until it returns.
	failed func(reason string)
	spawn  func(func(context.Context)) bool

	mu      sync.Mutex
	streams map[scope]*stream
}

func newPool(client rest.Interface, failed func(reason string), spawn func(func(context.Context)) bool) *pool {
	return &pool{client: client, failed: failed, spawn: spawn, streams: map[scope]*stream{}}
}

// join connects sub to the stream of its scope, and starts the stream if there is none.
func (p *pool) join(sub *subscription) {
	p.mu.Lock()
	if sub.ended {
		p.mu.Unlock()
		return
	}
	s, ok := p.streams[sub.scope]
	if !ok {
		s = newStream(p.client, sub.scope, p.failed)
		p.streams[sub.scope] = s
	}
	s.join(sub)
	p.mu.Unlock()
	if !ok {
		p.spawn(s.run)
	}
}

// leave ends a subscription, and its stream if it was the last one.
func (p *pool) leave(sub *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := sub.ended
	sub.ended = true
	if s := p.streams[sub.scope]; !before && s != nil && s.leave(sub) {
		delete(p.streams, sub.scope)
		s.stop()
	}
}

// rewatch lists and watches the objects of a resource again, such as "crontabs.example.com".
func (p *pool) rewatch(resource string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sc, s := range p.streams {
		if sc.GroupResource().String() == resource {
			s.hold()
		}
	}
}

// size returns the number of lists and watches in use.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}
