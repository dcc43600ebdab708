package event

import (
	"bytes"
	"iter"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Log is a list of events of one hook that takes little memory, for many may have to wait. It is text: a few bytes for
// each event, with payloads of up to Small bytes among them. Longer ones stay where they are. The zero value is empty.
//
// There is one owner: copies of a Log must not be used side by side.
type Log struct {
	// text has the latest records, the first of which names its place.
	text []byte
	// more is nil as long as text says all: it is one record without long payloads.
	more *more
}

// chunkSize is where a text ends and a new one begins, so that events which have come never have to be copied again.
const chunkSize = 4 << 10

// more is what there is to know of a Log besides the text.
type more struct {
	// events is how many there are in all.
	events int
	// long are the payloads that records in text do not have themselves, in order.
	long []Payload
	// last is where the last record begins in text, place is where the place is named at which it is.
	last  int
	place span
	// full are the chunks before text.
	full []chunk
}

// chunk has records, the first of which names its place, and their long payloads.
type chunk struct {
	text []byte
	long []Payload
}

type span struct{ from, to int }

func (s span) in(text []byte) []byte { return text[s.from:s.to] }
func (s span) behind(n int) span     { return span{n + s.from, n + s.to} }

// LogOf returns a Log of one event.
func LogOf(ev Event) Log {
	var scratch [256]byte // enough for most
	text, long := appendRecord(scratch[:0], &ev)
	l := Log{text: slices.Clone(text)}
	if len(long) > 0 {
		m := l.state()
		m.long = long
		l.more = &m
	}
	return l
}

// Len is the number of events.
func (l *Log) Len() int {
	switch {
	case l.more != nil:
		return l.more.events
	case len(l.text) > 0:
		return 1
	}
	return 0
}

// state is more, or what it would be.
func (l *Log) state() more {
	switch {
	case l.more != nil:
		return *l.more
	case len(l.text) > 0:
		return more{events: 1, place: parse(l.text).place}
	}
	return more{}
}

// Add appends an event.
func (l *Log) Add(ev Event) { l.Join(LogOf(ev)) }

// Join takes over the events of another Log, behind the others.
func (l *Log) Join(next Log) {
	if l.Len() == 0 || next.Len() == 0 {
		if next.Len() > 0 {
			*l = next
		}
		return
	}
	behind := next.state()
	if l.more == nil {
		m := l.state()
		l.more = &m
	}
	m := l.more
	m.events += behind.events
	if len(behind.full) == 0 && len(l.text)+len(next.text) <= chunkSize {
		l.append(next.text, &behind)
		return
	}
	m.full = append(append(m.full, chunk{l.text, m.long}), behind.full...)
	m.long, m.last, m.place = behind.long, behind.last, behind.place
	l.text = next.text
	if len(behind.full) == 0 { // more like it will follow
		l.text = append(make([]byte, 0, max(chunkSize, len(next.text))), next.text...)
	}
}

// append adds records to the text, of which behind is known. The first one need not name the place where it is anyway.
func (l *Log) append(records []byte, behind *more) {
	m, end := l.more, len(l.text)
	if need := end + len(records); need > cap(l.text) {
		l.text = append(make([]byte, 0, min(2*need, chunkSize)), l.text...)
	}
	if place := behind.place; behind.last == 0 && bytes.Equal(m.place.in(l.text), place.in(records)) {
		l.text = append(l.text, records[0]|samePlace)
		l.text = append(l.text, records[1:place.from]...)
		l.text = append(l.text, records[place.to:]...)
	} else {
		l.text = append(l.text, records...)
		m.place = place.behind(end)
	}
	m.last = end + behind.last
	m.long = append(m.long, behind.long...)
}

// JoinOver is Join, but the first one of next comes in the place of the last one here.
func (l *Log) JoinOver(next Log) {
	if l.Len() <= 1 || next.Len() == 0 {
		if next.Len() > 0 {
			*l = next
		}
		return
	}
	m := l.more
	gone := parse(l.text[m.last:])
	l.text = l.text[:m.last]
	m.long = slices.Delete(m.long, len(m.long)-gone.long(), len(m.long))
	m.events--
	if m.place.from >= m.last {
		m.place = span{} // which equals none
	}
	l.Join(next)
}

// First and Last return the first and the last event without their objects. There has to be one.
func (l *Log) First(h *hook.Hook) Event {
	text := l.text
	if l.more != nil && len(l.more.full) > 0 {
		text = l.more.full[0].text
	}
	r := parse(text)
	return r.event(h)
}

func (l *Log) Last(h *hook.Hook) Event {
	m := l.state()
	r := parse(l.text[m.last:])
	return r.event(h)
}

// All yields the events, in order, as those of a hook. Small payloads of them are there until the Log is joined.
func (l *Log) All(h *hook.Hook) iter.Seq[Event] {
	return l.each(h, true)
}

// Addresses is All without objects.
func (l *Log) Addresses(h *hook.Hook) iter.Seq[Event] {
	return l.each(h, false)
}

func (l *Log) each(h *hook.Hook, objects bool) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		m := l.state()
		for i := 0; i <= len(m.full); i++ {
			c := chunk{l.text, m.long}
			if i < len(m.full) {
				c = m.full[i]
			}
			if !c.each(h, objects, yield) {
				return
			}
		}
	}
}

// each yields the events of a chunk. It returns false when no more are wanted.
func (c chunk) each(h *hook.Hook, objects bool, yield func(Event) bool) bool {
	var namespace, kind string
	for text, long := c.text, c.long; len(text) > 0; {
		r := parse(text)
		ev := r.event(h)
		if objects {
			from := r.name.from
			if r.head&samePlace == 0 {
				from = r.place.from
			}
			words := string(text[from:r.name.to]) // one for all that are new
			if r.head&samePlace == 0 {
				namespace, kind = words[r.namespace.from-from:r.namespace.to-from], words[r.kind.from-from:r.kind.to-from]
			}
			ev.Object = Object{Namespace: namespace, Kind: kind, Name: words[r.name.from-from:]}
			ev.Object.Full, long = r.full.take(long)
			ev.Object.Filtered, long = r.filtered.take(long)
		}
		if !yield(ev) {
			return false
		}
		text = text[r.size:]
	}
	return true
}
