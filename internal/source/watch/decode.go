package watch

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// decodeList reads one page of a list, item by item, so that the page is never in memory as a whole.
func decodeList(body io.Reader, x *indexer) (*objectList, error) {
	dec := jsontext.NewDecoder(body, lenient...)
	list := &objectList{}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, errors.Join(errors.New("the list is not a JSON object"), err)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		switch name.String() {
		case "kind":
			err = json.UnmarshalDecode(dec, &list.Kind)
			x.fallbackKind = strings.TrimSuffix(list.Kind, "List")
		case "apiVersion":
			err = json.UnmarshalDecode(dec, &list.APIVersion)
			x.fallbackVersion = list.APIVersion
		case "metadata":
			err = json.UnmarshalDecode(dec, &list.ListMeta)
		case "items":
			err = decodeItems(dec, x, list)
		default:
			err = dec.SkipValue()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the list: %w", err)
		}
	}
	_, err := dec.ReadToken()
	return list, err
}

func decodeItems(dec *jsontext.Decoder, x *indexer, list *objectList) error {
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		o, err := x.index(raw)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, o)
	}
	_, err := dec.ReadToken()
	return err
}

// eventStream turns the body of a watch request into events. It implements watch.Interface.
type eventStream struct {
	body   io.ReadCloser
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

var _ watch.Interface = (*eventStream)(nil)

func newEventStream(body io.ReadCloser, x *indexer) *eventStream {
	// A few events of slack let decoding and filtering overlap.
	s := &eventStream{body: body, events: make(chan watch.Event, 16), stop: make(chan struct{})}
	go s.read(x)
	return s
}

func (s *eventStream) ResultChan() <-chan watch.Event { return s.events }

func (s *eventStream) Stop() {
	s.once.Do(func() {
		close(s.stop)
		s.body.Close()
	})
}

func (s *eventStream) read(x *indexer) {
	defer close(s.events)
	defer s.Stop()
	dec := jsontext.NewDecoder(s.body, lenient...)
	for {
		ev, err := decodeEvent(dec, x)
		if err != nil {
			// The end of the stream is normal, however it came: the reflector starts the next one from
			// the last version that it saw.
			return
		}
		select {
		case s.events <- ev:
		case <-s.stop:
			return
		}
	}
}

func decodeEvent(dec *jsontext.Decoder, x *indexer) (watch.Event, error) {
	var ev watch.Event
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return ev, errors.Join(errors.New("the event is not a JSON object"), err)
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return ev, err
		}
		switch name.String() {
		case "type":
			var tok jsontext.Token
			if tok, err = dec.ReadToken(); err == nil {
				ev.Type = watch.EventType(tok.String())
			}
		case "object":
			err = decodeEventObject(dec, x, &ev)
		default:
			err = dec.SkipValue()
		}
		if err != nil {
			return ev, err
		}
	}
	_, err := dec.ReadToken()
	return ev, err
}

func decodeEventObject(dec *jsontext.Decoder, x *indexer, ev *watch.Event) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if ev.Type == watch.Error {
		status := &metav1.Status{}
		if err := json.Unmarshal(raw, status, json.MatchCaseInsensitiveNames(true)); err != nil {
			return err
		}
		ev.Object = status
		return nil
	}
	o, err := x.index(raw)
	if err != nil {
		return err
	}
	if ev.Type == watch.Bookmark {
		o.json = nil
	}
	ev.Object = o
	return nil
}
