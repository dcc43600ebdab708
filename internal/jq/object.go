package jq

import "context"

// Object is the JSON text of an object that filters are applied to, which is known to be valid. It is decoded when the
// first filter asks, and as far as filters read it. The text must not change as long as the Object is in use; by one goroutine at a time.
type Object struct {
	dec  *Decoder
	text []byte
	need *Need
	// pruned is the tree as far as it is needed, full is all of it, once somebody has asked for that.
	pruned, full       any
	hasPruned, hasFull bool
	results            []result
}

// result is what a filter has made of the object, which is the same for everybody who has this filter.
type result struct {
	filter *Filter
	text   []byte
	err    error
}

// Object returns text as an object for filters; need is what they read of it. The Object is to be closed before the
// Decoder makes another one.
func (d *Decoder) Object(text []byte, need *Need) *Object {
	d.current = Object{dec: d, text: text, need: need, results: d.current.results}
	return &d.current
}

// Close lets go of what was decoded.
func (o *Object) Close() {
	clear(o.results)
	*o = Object{results: o.results[:0]}
}

// ApplyTo is Apply for an object. What cannot be decoded is null to filters.
func (f *Filter) ApplyTo(ctx context.Context, o *Object) ([]byte, error) {
	for _, r := range o.results {
		if r.filter == f {
			return r.text, r.err
		}
	}
	text, err := f.applyTo(ctx, o)
	if ctx.Err() == nil {
		o.results = append(o.results, result{f, text, err})
	}
	return text, err
}

func (f *Filter) applyTo(ctx context.Context, o *Object) (text []byte, err error) {
	defer recovered(&err)
	if f.direct != nil && !o.hasFull {
		if !o.hasPruned {
			// Nobody keeps anything of the tree: results are texts of their own. gojq is not that careful.
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
		return f.applyPatiently(ctx, o.full)
	}
	return f.Apply(ctx, o.full)
}
