package event

import (
	"encoding/binary"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// A record of an event is:
//
//	head, one byte: the bits of its Type, of its Watch, and of what follows
//	index
//	namespace and kind, together the place, unless it is that of the record before
//	name
//	full and filtered payload, if there are such: 0 for a long one, otherwise length + 1 and the bytes
//
// Numbers are varints; texts have their length in front.
const (
	typeBits    = 0b111
	watchShift  = 3
	watchBits   = 0b11
	hasFull     = 1 << 5
	hasFiltered = 1 << 6
	samePlace   = 1 << 7
)

// The head has room for all of them.
const (
	_ = uint(typeBits - HTTP)
	_ = uint(watchBits - Deleted)
)

// record is where a text has what.
type record struct {
	head                  byte
	index                 int
	place                 span
	namespace, kind, name span
	full, filtered        stored
	size                  int
}

// stored is a payload in a record.
type stored struct {
	there, long bool
	text        []byte
}

// appendRecord appends the record of an event, which names its place, and returns the payloads that are too long for it.
func appendRecord(text []byte, ev *Event) (_ []byte, long []Payload) {
	o := &ev.Object
	head := byte(ev.Type) | byte(ev.Watch)<<watchShift
	if o.Full != nil {
		head |= hasFull
	}
	if o.Filtered != nil {
		head |= hasFiltered
	}
	text = append(text, head)
	text = binary.AppendUvarint(text, uint64(ev.Index))
	for _, part := range []string{o.Namespace, o.Kind, o.Name} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	for _, p := range []Payload{o.Full, o.Filtered} {
		switch small, ok := p.(Memory); {
		case p == nil:
		case ok && len(small) <= Small:
			text = binary.AppendUvarint(text, uint64(len(small))+1)
			text = append(text, small...)
		default:
			text = append(text, 0)
			long = append(long, p)
		}
	}
	return text, long
}

// parse reads the first record of a text.
func parse(text []byte) (r record) {
	p := parser{text: text, at: 1}
	r.head = text[0]
	r.index = p.number()
	if r.head&samePlace == 0 {
		r.place.from = p.at
		r.namespace, r.kind = p.part(), p.part()
		r.place.to = p.at
	}
	r.name = p.part()
	r.full, r.filtered = p.payload(r.head&hasFull != 0), p.payload(r.head&hasFiltered != 0)
	r.size = p.at
	return r
}

type parser struct {
	text []byte
	at   int
}

func (p *parser) number() int {
	v, n := binary.Uvarint(p.text[p.at:])
	p.at += n
	return int(v)
}

func (p *parser) part() span {
	n := p.number()
	p.at += n
	return span{p.at - n, p.at}
}

func (p *parser) payload(there bool) stored {
	if !there {
		return stored{}
	}
	n := p.number()
	if n == 0 {
		return stored{there: true, long: true}
	}
	p.at += n - 1
	return stored{there: true, text: p.text[p.at-n+1 : p.at : p.at]}
}

// event is the event without its object.
func (r *record) event(h *hook.Hook) Event {
	return Event{Type: Type(r.head & typeBits), Hook: h, Index: r.index, Watch: Watch(r.head >> watchShift & watchBits)}
}

// long is how many of the payloads are not in the record.
func (r *record) long() (n int) {
	for _, s := range []stored{r.full, r.filtered} {
		if s.long {
			n++
		}
	}
	return n
}

// take returns the payload, which is the first of long if it is one of them, and what is left of long.
func (s stored) take(long []Payload) (Payload, []Payload) {
	switch {
	case !s.there:
		return nil, long
	case s.long:
		return long[0], long[1:]
	}
	return Memory(s.text), long
}
