package kube

import (
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// stream is a watch whose body ends with it.
type stream struct {
	*watch.ProxyWatcher
	closeBody func() error
}

// Stream returns the events of a watch, which next reads from its body. It closes the body. An error of next ends the
// stream. That is normal: the reflector starts the next one at the last resource version.
func Stream(body io.ReadCloser, next func() (watch.Event, error)) watch.Interface {
	// A small buffer lets decoding overlap with handling.
	events := make(chan watch.Event, 16)
	s := stream{watch.NewProxyWatcher(events), sync.OnceValue(body.Close)}
	go func() {
		defer close(events)
		defer s.Stop()
		for {
			ev, err := next()
			if err != nil {
				return
			}
			select {
			case events <- ev:
			case <-s.StopChan():
				return
			}
		}
	}()
	return s
}

func (s stream) Stop() {
	s.ProxyWatcher.Stop()
	_ = s.closeBody()
}
