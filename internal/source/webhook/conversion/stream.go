package conversion

import (
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// eventStream turns the body of a watch into events.
type eventStream struct {
	body   io.ReadCloser
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

var _ watch.Interface = (*eventStream)(nil)

func (s *eventStream) ResultChan() <-chan watch.Event { return s.events }

func (s *eventStream) Stop() {
	s.once.Do(func() {
		close(s.stop)
		s.body.Close()
	})
}

// read ends when the stream does, however that happens: the reflector starts the next one where this one ended.
func (s *eventStream) read() {
	defer close(s.events)
	defer s.Stop()
	dec := jsontext.NewDecoder(s.body, lenient)
	for {
		ev, err := readEvent(dec)
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

func readEvent(dec *jsontext.Decoder) (watch.Event, error) {
	var raw struct {
		Type   watch.EventType `json:"type"`
		Object jsontext.Value  `json:"object"`
	}
	if err := json.UnmarshalDecode(dec, &raw); err != nil {
		return watch.Event{}, err
	}
	if raw.Type == watch.Error {
		status := &metav1.Status{}
		err := json.Unmarshal(raw.Object, status, json.MatchCaseInsensitiveNames(true))
		return watch.Event{Type: raw.Type, Object: status}, err
	}
	c, err := readCRD(raw.Object)
	return watch.Event{Type: raw.Type, Object: c}, err
}
