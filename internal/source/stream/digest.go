package stream

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// arrival is an object that was read, with its filter results.
type arrival struct {
	*Object
	version uint64
	// subs are the consumers, results the results of their filters; nil when none has a filter. Filters whose result is not done still
	// have to run, on text.
	subs    []*Subscription
	results []Filtered
	text    []byte
	// shared: another consumer has the object's JSON.
	shared bool
}

// Filtered has the results of one consumer's filters for an object.
type Filtered struct {
	// Filtered is the result of jqFilter, Key the text of a jq key.
	Filtered []byte
	Key      string
	Done     bool
}

// result returns the results of the i-th consumer's filters.
func (a *arrival) result(i int) Filtered {
	if a.results == nil {
		return Filtered{}
	}
	return a.results[i]
}

// digester reduces an object's JSON to the parts that consumers keep. It reuses buffers, so each goroutine has its own.
type digester struct {
	*indexer
	ctx context.Context
	// subs returns the consumers of an object of this version.
	subs func(version uint64) []*Subscription
	// scratch is the JSON of an object that is not kept, batch the text of the last batch.
	scratch, batch []byte
	turn           deadline
	// reads are the parts of an object that the filters of readers read.
	reads   *jq.Need
	readers []*Subscription
}

// digest indexes raw, and copies as much of it as is kept. No filter is applied to an object that was deleted.
func (d *digester) digest(raw []byte, deleted bool) (*arrival, error) {
	o, layout, err := d.scan(raw)
	if err != nil {
		return nil, err
	}
	a := &arrival{Object: o, version: ParseVersion(o.ResourceVersion)}
	a.subs = d.subs(a.version)
	var keep, decode, lifetime bool
	for _, sub := range a.subs {
		if sub.gone.Load() || !sub.Wants(o) {
			continue
		}
		n := sub.Needs()
		keep, lifetime = keep || n.JSON, lifetime || n.Lifetime
		decode = decode || len(n.Filters) > 0 && !deleted
	}
	if lifetime {
		o.lifetime = readLifetime(raw)
	}
	text := d.scratch
	switch {
	case keep:
		o.JSON = layout.appendTo(make([]byte, 0, layout.size(raw)), raw)
		text = o.JSON
	case decode:
		d.scratch = layout.appendTo(d.scratch[:0], raw)
		text = d.scratch
	}
	if decode && !d.evaluate(a, text) {
		if a.text = o.JSON; !keep {
			a.text = bytes.Clone(text)
		}
	}
	return a, nil
}

// evaluate applies the filters of the consumers, to an object that is decoded once for all of them. It returns false if it left some out
// because they take long.
func (d *digester) evaluate(a *arrival, text []byte) (all bool) {
	if len(a.subs) != len(d.readers) || &a.subs[0] != &d.readers[0] { // consumers that join or leave make a new slice
		d.reads, d.readers = reads(a.subs), a.subs
	}
	content := jq.NewObject(text, d.reads)
	a.results, all = make([]Filtered, len(a.subs)), true
	for i, sub := range a.subs {
		switch {
		case len(sub.Needs().Filters) == 0 || sub.gone.Load() || !sub.Wants(a.Object):
		case sub.isSlow():
			all = false
		default:
			d.turn = deadline{d.ctx, time.Now()}
			a.results[i] = sub.Filter(&d.turn, a.Object, content)
			// One function of jq cannot be interrupted, so a filter may have ended much later.
			if !a.results[i].Done || time.Since(d.turn.began) > 5*filterTurn {
				sub.slow()
			}
			all = all && a.results[i].Done
		}
	}
	return all
}

// reads returns the parts of an object that the filters of consumers read.
func reads(subs []*Subscription) *jq.Need {
	var filters []*jq.Filter
	for _, sub := range subs {
		filters = append(filters, sub.Needs().Filters...)
	}
	return jq.NeedOf(filters...)
}

// Bounds of the part of a list that one goroutine digests.
const (
	batchObjects = 64
	batchBytes   = 256 << 10
)

// batches digests a list on all processors, in parts. The text that waits is bounded.
type batches struct {
	// idle are the digesters that no batch has.
	idle    chan *digester
	running sync.WaitGroup
	all     []*batch
	filling *batch
}

// batch is a part of a list. It has a digester until it has been digested.
type batch struct {
	digester *digester
	text     []byte
	// ends of the objects in text.
	ends     []int
	arrivals []*arrival
	err      error
}

func newBatches(newDigester func() *digester, kind, version string) *batches {
	n := runtime.GOMAXPROCS(0) + 1 // one batch is being filled
	b := &batches{idle: make(chan *digester, n)}
	for range n {
		d := newDigester()
		d.fallbackKind, d.fallbackVersion = kind, version
		b.idle <- d
	}
	b.fill()
	return b
}

// fill begins a batch.
func (b *batches) fill() {
	d := <-b.idle
	b.filling = &batch{digester: d, text: d.batch[:0]}
	b.all = append(b.all, b.filling)
}

// add copies an object.
func (b *batches) add(raw []byte) {
	f := b.filling
	f.text = append(f.text, raw...)
	f.ends = append(f.ends, len(f.text))
	if len(f.ends) == batchObjects || len(f.text) >= batchBytes {
		b.start()
		b.fill()
	}
}

// start digests the batch that was filled.
func (b *batches) start() {
	f := b.filling
	b.running.Go(func() {
		d := f.digester
		f.digest(d)
		d.batch, f.digester, f.text = f.text, nil, nil
		b.idle <- d
	})
}

func (f *batch) digest(d *digester) {
	f.arrivals = make([]*arrival, 0, len(f.ends))
	from := 0
	for _, end := range f.ends {
		a, err := d.digest(f.text[from:end], false)
		from = end
		if errors.Is(err, errForeign) {
			continue
		}
		if err != nil {
			f.err = err
			return
		}
		f.arrivals = append(f.arrivals, a)
	}
}

// finish returns the objects in the order in which they were added.
func (b *batches) finish() ([]*arrival, error) {
	b.start()
	b.running.Wait()
	var list []*arrival
	for _, f := range b.all {
		if f.err != nil {
			return nil, f.err
		}
		list = append(list, f.arrivals...)
	}
	return list, nil
}
