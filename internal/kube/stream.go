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

// Stream turns the body of a watch request into events, which next reads one after the other. It closes the body. An error
// of next ends the stream. That is normal: the reflector starts the next one from the last version that it saw.
func Stream(body io.ReadCloser, next func() (watch.Event, error)) watch.Interface {
	// A few events of slack let reading overlap with what is done with the events.
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
