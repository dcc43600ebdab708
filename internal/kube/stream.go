package kube

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Stream returns the events of a watch, which next reads from its body. It closes the body. An error of next ends the
// stream. That is normal: the reflector starts the next one at the last resource version.
func Stream(body io.Closer, next func() (watch.Event, error)) watch.Interface {
	return watch.NewStreamWatcher(decoder{body, next}, nil)
}

type decoder struct {
	body io.Closer
	next func() (watch.Event, error)
}

func (d decoder) Decode() (watch.EventType, runtime.Object, error) {
	ev, err := d.next()
	if err != nil {
		err = io.EOF
	}
	return ev.Type, ev.Object, err
}

func (d decoder) Close() { _ = d.body.Close() }
