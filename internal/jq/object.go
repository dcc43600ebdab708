package jq

import "context"

// Object is the valid JSON text of an object to which filters are applied. It is decoded by the first filter that needs it, as far as
// filters read it. The text must not change while the Object is in use. One goroutine may use it at a time.
type Object struct {
	text []byte
	need *Need
	// tree is the decoded text, as far as decoded says.
	tree    any
	decoded *Need
	results []cached
}

// cached is the result of a filter: bindings with equal filters share it.
type cached struct {
	filter *Filter
	text   []byte
	err    error
}

// NewObject returns text as an object for filters; need is what they read of it.
func NewObject(text []byte, need *Need) *Object { return &Object{text: text, need: need} }

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
	if f.direct != nil {
		if text, ok := f.applyDirectly(o.decode(o.need)); ok {
			return text, nil
		}
	}
	return f.applyByGojq(ctx, o.decode(everything))
}

// decode returns a tree with at least what is needed. A part of the whole aliases the text: results of direct evaluation are copies. gojq
// gives no such guarantee, and gets the whole.
func (o *Object) decode(need *Need) any {
	if o.decoded != need && o.decoded != everything {
		o.tree, o.decoded = decode(o.text, need, need != everything), need
	}
	return o.tree
}
