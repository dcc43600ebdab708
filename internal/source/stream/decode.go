package stream

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// decodeList reads one page of a list, item by item, so that the page is never in memory as a whole.
func decodeList(body io.Reader, newDigester func() *digester) (*objectList, error) {
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
		case "apiVersion":
			err = json.UnmarshalDecode(dec, &list.APIVersion)
		case "metadata":
			err = json.UnmarshalDecode(dec, &list.ListMeta)
		case "items":
			b := newBatches(newDigester, strings.TrimSuffix(list.Kind, "List"), list.APIVersion)
			err = decodeItems(dec, b)
			items, digested := b.finish()
			for _, a := range items {
				list.Items = append(list.Items, a)
			}
			err = cmp.Or(err, digested)
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

func decodeItems(dec *jsontext.Decoder, b *batches) error {
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
		b.add(raw)
	}
	_, err := dec.ReadToken()
	return err
}

// newEventStream turns the body of a watch request into events. broke receives an error that the API server sends in place of an event, and
// the end of the body within or without one, and whether there was none before.
func newEventStream(body io.ReadCloser, d *digester, broke func(err error, first bool)) watch.Interface {
	dec := &eventDecoder{dec: jsontext.NewDecoder(body, lenient...), digester: d, broke: broke}
	return kube.Stream(body, dec.next)
}

// eventDecoder reads one event at a time.
type eventDecoder struct {
	dec      *jsontext.Decoder
	digester *digester
	broke    func(err error, first bool)
	began    bool // an event has been read
}

func (d *eventDecoder) next() (ev watch.Event, err error) {
	ev, err = d.read()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF) && !d.began:
		d.broke(err, !d.began)
	case err == nil && ev.Type == watch.Error:
		d.broke(apierrors.FromObject(ev.Object), !d.began)
	}
	d.began = true
	return ev, err
}

func (d *eventDecoder) read() (ev watch.Event, err error) {
	if tok, err := d.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return ev, errors.Join(errors.New("the event is not a JSON object"), err)
	}
	for d.dec.PeekKind() == '"' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return ev, err
		}
		switch name.String() {
		case "type":
			var tok jsontext.Token
			if tok, err = d.dec.ReadToken(); err == nil {
				ev.Type = watch.EventType(tok.String())
			}
		case "object":
			ev.Object, err = d.object(ev.Type)
			if errors.Is(err, errForeign) {
				ev.Type, ev.Object, err = watch.Bookmark, d.foreign(), nil
			}
		default:
			err = d.dec.SkipValue()
		}
		if err != nil {
			return ev, err
		}
	}
	_, err = d.dec.ReadToken()
	return ev, err
}

func (d *eventDecoder) object(event watch.EventType) (runtime.Object, error) {
	raw, err := d.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	switch event {
	case watch.Error:
		status := &metav1.Status{}
		err := json.Unmarshal(raw, status, json.MatchCaseInsensitiveNames(true))
		kube.Redact(status)
		return status, err
	case watch.Bookmark:
		o, _, err := d.digester.scan(raw)
		if err == nil {
			d.digester.subs(ParseVersion(o.ResourceVersion))
		}
		return &arrival{Object: o}, err
	}
	a, err := d.digester.digest(raw, event == watch.Deleted)
	return a, err
}

// foreign replaces an object of another shard: the watch has come so far.
func (d *eventDecoder) foreign() runtime.Object {
	o := &Object{ResourceVersion: string(d.digester.foreign)}
	d.digester.subs(ParseVersion(o.ResourceVersion))
	return &arrival{Object: o}
}
