package watch

import (
	"context"
	"runtime"
	"sync"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// arrival is an object that has just come, with what the consumers make of it. The reflector carries it from the
// decoder to the feed.
type arrival struct {
	*object
	// results are by consumer of the round; nil when none has a filter.
	results [][]byte
}

// result is what the i-th consumer keeps beside the object.
func (a *arrival) result(i int) []byte {
	if a.results == nil {
		return nil
	}
	return a.results[i]
}

// digester makes of an object's bytes what is kept of it, and only that. It keeps what it can use again for the next
// object, so each goroutine has its own.
type digester struct {
	*indexer
	ctx context.Context
	// serving returns the consumers of the round, always the same ones; nil stands for one who keeps everything.
	serving func() []*subscription
	// scratch holds the bytes of an object that nobody keeps.
	scratch []byte
	decoder jq.Decoder
	// reads is what the filters of the round read of an object. It is nil before the first one.
	reads *jq.Need
}

// digest indexes raw, which it copies as far as somebody keeps it. gone tells that the object has been deleted: no
// filter is asked any more.
func (d *digester) digest(raw []byte, gone bool) (*arrival, error) {
	o, layout, err := d.scan(raw)
	if err != nil {
		return nil, err
	}
	a := &arrival{object: o}
	if d.serving == nil {
		o.json = layout.appendTo(make([]byte, 0, layout.size(raw)), raw)
		return a, nil
	}
	subs := d.serving()
	var keep, decode bool
	for _, sub := range subs {
		if sub.gone.Load() || !sub.wants(o) {
			continue
		}
		filter, json := sub.needs()
		keep = keep || json
		decode = decode || filter != nil && !gone
	}
	switch {
	case keep:
		o.json = layout.appendTo(make([]byte, 0, layout.size(raw)), raw)
		if decode {
			a.results = d.evaluate(o, o.json, subs)
		}
	case decode:
		d.scratch = layout.appendTo(d.scratch[:0], raw)
		a.results = d.evaluate(o, d.scratch, subs)
	}
	return a, nil
}

// evaluate computes what each consumer keeps of o beside it. The object is decoded once for all.
func (d *digester) evaluate(o *object, text []byte, subs []*subscription) [][]byte {
	if d.reads == nil {
		d.reads = reads(subs)
	}
	content := d.decoder.Object(text, d.reads)
	defer content.Close()
	results := make([][]byte, len(subs))
	for i, sub := range subs {
		if sub.gone.Load() || !sub.wants(o) {
			continue
		}
		if filter, _ := sub.needs(); filter != nil {
			results[i] = sub.filter(d.ctx, o, content)
		}
	}
	return results
}

// reads is what the filters of consumers read of an object.
func reads(subs []*subscription) *jq.Need {
	var filters []*jq.Filter
	for _, sub := range subs {
		if filter, _ := sub.needs(); filter != nil {
			filters = append(filters, filter)
		}
	}
	return jq.NeedOf(filters...)
}

// How much of a list waits to be digested at a time.
const (
	batchObjects = 64
	batchBytes   = 256 << 10
)

// pipeline digests the objects of a list on all processors, and hands them on in their order. What is on its way is
// bounded, so that a list never piles up here.
type pipeline struct {
	// emit takes the arrivals, one after the other.
	emit func(*arrival)
	// idle digesters; whoever takes one may work.
	idle chan *digester
	all  []*digester
	// started batches, in order. free ones are used again.
	started, free chan *batch
	filling       *batch
	emitting      sync.WaitGroup
	// pending are the started batches that have not been emitted.
	pending sync.WaitGroup

	mu  sync.Mutex
	err error
}

// batch is a part of a list.
type batch struct {
	text []byte
	// ends of the objects in text.
	ends     []int
	arrivals []*arrival
	err      error
	done     chan struct{}
}

// newPipeline returns a pipeline, which has to be closed.
func newPipeline(newDigester func() *digester, emit func(*arrival)) *pipeline {
	n := runtime.GOMAXPROCS(0)
	p := &pipeline{
		emit: emit, idle: make(chan *digester, n), started: make(chan *batch, n), free: make(chan *batch, n+2), filling: &batch{},
	}
	for range n {
		d := newDigester()
		p.all = append(p.all, d)
		p.idle <- d
	}
	p.emitting.Go(p.emitInOrder)
	return p
}

// add takes an object, which it copies. It fails when an earlier one could not be read.
func (p *pipeline) add(raw []byte) error {
	b := p.filling
	b.text = append(b.text, raw...)
	b.ends = append(b.ends, len(b.text))
	if len(b.ends) < batchObjects && len(b.text) < batchBytes {
		return nil
	}
	p.start()
	return p.failure()
}

// start lets the batch that has been filled be digested.
func (p *pipeline) start() {
	b := p.filling
	b.done = make(chan struct{})
	p.pending.Add(1)
	d := <-p.idle
	p.started <- b
	go func() {
		b.digest(d)
		p.idle <- d
		close(b.done)
	}()
	select {
	case p.filling = <-p.free:
	default:
		p.filling = &batch{}
	}
}

func (b *batch) digest(d *digester) {
	from := 0
	for _, end := range b.ends {
		a, err := d.digest(b.text[from:end], false)
		if err != nil {
			b.err = err
			return
		}
		b.arrivals = append(b.arrivals, a)
		from = end
	}
}

func (p *pipeline) emitInOrder() {
	for b := range p.started {
		<-b.done
		if p.failure() == nil {
			for _, a := range b.arrivals {
				p.emit(a)
			}
		}
		if b.err != nil {
			p.mu.Lock()
			p.err = b.err
			p.mu.Unlock()
		}
		clear(b.arrivals)
		*b = batch{text: b.text[:0], ends: b.ends[:0], arrivals: b.arrivals[:0]}
		select {
		case p.free <- b:
		default:
		}
		p.pending.Done()
	}
}

// flush waits until everything that was added has been emitted.
func (p *pipeline) flush() error {
	if len(p.filling.ends) > 0 {
		p.start()
	}
	p.pending.Wait()
	return p.failure()
}

func (p *pipeline) close() {
	close(p.started)
	p.emitting.Wait()
}

func (p *pipeline) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// fallback tells what kind and version the items of a list have if they do not say. The pipeline has to be empty.
func (p *pipeline) fallback(kind, version string) {
	for _, d := range p.all {
		d.fallbackKind, d.fallbackVersion = kind, version
	}
}
