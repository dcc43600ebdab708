package kube

import (
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// stream implements watch.Interface.
type stream struct {
	body   io.ReadCloser
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

// Stream returns the events of a watch, which next reads from its body. It closes the body. An error of next ends the
// stream. That is normal: the reflector starts the next one at the last resource version.
func Stream(body io.ReadCloser, next func() (watch.Event, error)) watch.Interface {
	// A small buffer lets decoding overlap with handling.
	s := &stream{body: body, events: make(chan watch.Event, 16), stop: make(chan struct{})}
	go s.read(next)
	return s
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }

func (s *stream) Stop() {
	s.once.Do(func() {
		close(s.stop)
		s.body.Close()
	})
}

func (s *stream) read(next func() (watch.Event, error)) {
	defer close(s.events)
	defer s.Stop()
	for {
		ev, err := next()
		if err != nil {
			return
		}
		select {
		case s.events <- ev:
		case <-s.stop:
			return
		}
	}
}
