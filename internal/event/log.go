package event

import (
	"iter"
	"slices"
	"unique"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Log is a list of events of one hook that wait. An event takes 56 bytes and its payloads; text that events share is
// interned. The zero value is empty. Copies of a Log share its events and must not both be appended to.
type Log struct{ records []record }

// record is an Event without its hook.
type record struct {
	full, filtered Payload
	place          unique.Handle[place]
	name           unique.Handle[string]
	index          int32
	typ, watch     uint8
}

type place struct{ namespace, kind string }

func recordOf(ev *Event) record {
	o := &ev.Object
	return record{
		full: o.Full, filtered: o.Filtered, place: unique.Make(place{o.Namespace, o.Kind}), name: unique.Make(o.Name),
		index: int32(ev.Index), typ: uint8(ev.Type), watch: uint8(ev.Watch),
	}
}

func (r *record) event(h *hook.Hook) Event {
	where := r.place.Value()
	return Event{
		Type: Type(r.typ), Hook: h, Index: int(r.index), Watch: Watch(r.watch),
		Object: Object{Namespace: where.namespace, Name: r.name.Value(), Kind: where.kind, Full: r.full, Filtered: r.filtered},
	}
}

// LogOf returns a Log of one event.
func LogOf(ev Event) Log { return Log{[]record{recordOf(&ev)}} }

// Len is the number of events.
func (l *Log) Len() int { return len(l.records) }

// Add appends an event.
func (l *Log) Add(ev Event) { l.records = append(l.records, recordOf(&ev)) }

// Join appends the events of another Log, which must not be used afterwards.
func (l *Log) Join(next Log) {
	if len(l.records) == 0 {
		l.records = next.records
		return
	}
	l.records = append(l.records, next.records...)
}

// DropLast removes the last event. There has to be one.
func (l *Log) DropLast() { l.records = slices.Delete(l.records, len(l.records)-1, len(l.records)) }

// First returns the first event. There has to be one.
func (l *Log) First(h *hook.Hook) Event { return l.records[0].event(h) }

// Last returns the last event. There has to be one.
func (l *Log) Last(h *hook.Hook) Event { return l.records[len(l.records)-1].event(h) }

// All yields the events, in order, as those of a hook.
func (l *Log) All(h *hook.Hook) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for i := range l.records {
			if !yield(l.records[i].event(h)) {
				return
			}
		}
	}
}
