package jq

import "context"

// Object is the valid JSON text of an object to which filters are applied. It is decoded by the first filter that needs it, as far as
// filters read it. The text must not change while the Object is in use. One goroutine may use it at a time.
type Object struct {
	dec  *Decoder
	text []byte
	need *Need
	// pruned is the tree as far as filters read it, full the whole tree; each is decoded when it is first needed.
	pruned, full       any
	hasPruned, hasFull bool
	results            []cached
}

// cached is the result of a filter: bindings with equal filters share it.
type cached struct {
	filter *Filter
	text   []byte
	err    error
}

// Object returns text as an object for filters; need is what they read of it. It must be closed before the next one.
func (d *Decoder) Object(text []byte, need *Need) *Object {
	d.current = Object{dec: d, text: text, need: need, results: d.current.results}
	return &d.current
}

// Close releases the decoded trees.
func (o *Object) Close() {
	clear(o.results)
	*o = Object{results: o.results[:0]}
}

// ApplyTo is Apply for an object. An object that cannot be decoded is null.
func (f *Filter) ApplyTo(ctx context.Context, o *Object) ([]byte, error) {
	for _, r := range o.results {
		if r.filter == f {
			return r.text, r.err
		}
	}
	text, err := f.applyTo(ctx, o)
	if ctx.Err() == nil {
		o.results = append(o.results, cached{f, text, err})
	}
	return text, err
}

func (f *Filter) applyTo(ctx context.Context, o *Object) (text []byte, err error) {
	defer recovered(&err)
	if f.direct != nil && !o.hasFull {
		if !o.hasPruned {
			// The tree may alias the text: results of direct evaluation are copies. gojq gives no such guarantee.
			o.pruned = o.dec.decode(o.text, o.need, o.need != everything)
			o.hasPruned = true
		}
		if text, ok := f.applyDirectly(o.pruned); ok {
			return text, nil
		}
	}
	if !o.hasFull {
		if o.hasPruned && o.need == everything {
			o.full = o.pruned
		} else {
			o.full = o.dec.decode(o.text, everything, false)
		}
		o.hasFull = true
		return f.applyByGojq(ctx, o.full)
	}
	return f.Apply(ctx, o.full)
}
