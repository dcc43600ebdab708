package event

import (
	"iter"
	"slices"
	"unique"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Log is a list of events of one hook that wait. An event takes 56 bytes and its payloads; text that events share is
// interned. The zero value is empty. Copies of a Log share its events and must not both be modified.
type Log struct {
	// chunks have up to chunk events each, and none is empty. They save 26 of the 32 MB that 100,000 waiting events allocate in one slice
	// that grows.
	chunks [][]record
	events int
}

// chunk is the number of records in 8 KiB.
const chunk = 146

// record is an Event without its hook.
type record struct {
	full, filtered Payload
	origin         unique.Handle[origin]
	name           unique.Handle[string]
	index          int32
	typ, watch     uint8
	initial        bool
	retried        bool
}

// origin has the key and the uid, too: for most events both are empty and take nothing here.
type origin struct{ namespace, kind, key, uid string }

func recordOf(ev *Event) record {
	o := &ev.Object
	return record{
		full: o.Full, filtered: o.Filtered, origin: unique.Make(origin{o.Namespace, o.Kind, ev.Key, o.UID}), name: unique.Make(o.Name),
		index: int32(ev.Index), typ: uint8(ev.Type), watch: uint8(ev.Watch), initial: ev.Initial, retried: ev.Retried,
	}
}

func (r *record) event(h *hook.Hook) Event {
	where := r.origin.Value()
	return Event{
		Type: Type(r.typ), Hook: h, Index: int(r.index), Watch: Watch(r.watch), Initial: r.initial, Key: where.key,
		Retried: r.retried,
		Object:  Object{Namespace: where.namespace, Name: r.name.Value(), Kind: where.kind, Full: r.full, Filtered: r.filtered, UID: where.uid},
	}
}

// LogOf returns a Log of one event.
func LogOf(ev Event) Log { return Log{chunks: [][]record{{recordOf(&ev)}}, events: 1} }

// Len is the number of events.
func (l *Log) Len() int { return l.events }

// Add appends an event.
func (l *Log) Add(ev Event) { l.add(recordOf(&ev)) }

func (l *Log) add(r record) {
	l.events++
	switch last := len(l.chunks) - 1; {
	case last < 0: // most Logs are short
		l.chunks = [][]record{{r}}
	case len(l.chunks[last]) < chunk:
		l.chunks[last] = append(l.chunks[last], r)
	default:
		l.chunks = append(l.chunks, append(make([]record, 0, chunk), r))
	}
}

// Join appends the events of another Log, which must not be used afterwards.
func (l *Log) Join(next Log) {
	switch {
	case l.events == 0:
		*l = next
	case len(next.chunks) == 1:
		for _, r := range next.chunks[0] {
			l.add(r)
		}
	default:
		l.chunks = append(l.chunks, next.chunks...)
		l.events += next.events
	}
}

// Split keeps the first n events, at least one, and returns the others. There have to be more than n.
func (l *Log) Split(n int) (rest Log) {
	rest.events, l.events = l.events-n, n
	i := 0
	for ; n > len(l.chunks[i]); i++ {
		n -= len(l.chunks[i])
	}
	rest.chunks = slices.Clone(l.chunks[i:])
	if rest.chunks[0] = rest.chunks[0][n:]; len(rest.chunks[0]) == 0 {
		rest.chunks = rest.chunks[1:]
	}
	l.chunks = slices.Delete(l.chunks, i+1, len(l.chunks))
	l.chunks[i] = l.chunks[i][:n:n]
	return rest
}

// DropModified removes the last event of the object that an event is about, if both are Modified events of one binding. Found reports that
// there is one, dropped that it was removed.
func (l *Log) DropModified(ev *Event) (dropped, found bool) {
	of := recordOf(ev)
	for i, records := range slices.Backward(l.chunks) {
		for j, r := range slices.Backward(records) {
			if r.index != of.index || r.typ != of.typ || r.name != of.name || r.origin.Value().namespace != ev.Object.Namespace {
				continue
			}
			if dropped = Watch(r.watch) == Modified && ev.Watch == Modified; dropped {
				l.remove(i, j)
			}
			return dropped, true
		}
	}
	return false, false
}

// remove removes an event by its place in a chunk.
func (l *Log) remove(i, j int) {
	l.events--
	if l.chunks[i] = slices.Delete(l.chunks[i], j, j+1); len(l.chunks[i]) == 0 {
		l.chunks = slices.Delete(l.chunks, i, i+1)
	}
}

// DropLast removes the last event. There has to be one.
func (l *Log) DropLast() {
	last := len(l.chunks) - 1
	l.remove(last, len(l.chunks[last])-1)
}

// First returns the first event. There has to be one.
func (l *Log) First(h *hook.Hook) Event { return l.chunks[0][0].event(h) }

// Last returns the last event. There has to be one.
func (l *Log) Last(h *hook.Hook) Event {
	last := l.chunks[len(l.chunks)-1]
	return last[len(last)-1].event(h)
}

// All yields the events, in order, with the hook that they are for.
func (l *Log) All(h *hook.Hook) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, records := range l.chunks {
			for j := range records {
				if !yield(records[j].event(h)) {
					return
				}
			}
		}
	}
}
