package jq

import (
	"maps"
	"strings"

	"github.com/itchyny/gojq"
)

// Extent is how much of an array a value may contain.
type Extent int

const (
	// Detached values contain neither the array nor its whole first element: members of it, or something else.
	Detached Extent = iota
	// First is the first element as it is, All the array.
	First
	All
)

// Reads returns what the text of a filter shows: the extent of its outputs, and the members of the first element that it reads.
// The extent of its input is in. It returns false unless the filter provably reads nothing of the other elements.
func Reads(filter string, in Extent) (out Extent, members []string, ok bool) {
	q, err := gojq.Parse(filter)
	if err != nil {
		return All, nil, false
	}
	r := reader{vars: map[string]Extent{}, ok: true}
	out = r.query(q, in)
	return out, r.members, r.ok
}

// reader follows the array through a filter. It knows what selects the first element; everything else that touches the array
// sets ok to false.
type reader struct {
	vars    map[string]Extent
	members []string
	ok      bool
}

// detached evaluates a part whose outputs are used for something else than to be passed on.
func (r *reader) detached(q *gojq.Query, in Extent) {
	if q != nil && r.query(q, in) == All {
		r.ok = false
	}
}

func (r *reader) query(q *gojq.Query, in Extent) Extent {
	switch {
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0:
		r.ok = false
		return All
	case q.Term != nil:
		return r.term(q.Term, in)
	case q.Left == nil || q.Right == nil:
		r.ok = false
		return All
	case len(q.Patterns) > 0:
		outer := maps.Clone(r.vars)
		r.bind(q.Patterns, r.query(q.Left, in))
		out := r.query(q.Right, in)
		r.vars = outer
		return out
	}
	switch q.Op {
	case gojq.OpPipe:
		return r.query(q.Right, r.query(q.Left, in))
	case gojq.OpComma, gojq.OpAlt:
		return max(r.query(q.Left, in), r.query(q.Right, in))
	case gojq.OpModify:
		r.detached(q.Right, r.query(q.Left, in))
		return in
	case gojq.OpAssign, gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod, gojq.OpUpdateAlt:
		r.detached(q.Left, in)
		r.detached(q.Right, in)
		return in
	}
	r.detached(q.Left, in)
	r.detached(q.Right, in)
	return Detached
}

func (r *reader) term(t *gojq.Term, in Extent) Extent {
	out := r.base(t, in)
	for _, s := range t.SuffixList {
		switch {
		case s.Index != nil:
			out = r.index(s.Index, out, in)
		case s.Iter:
			out = r.values(out)
		}
	}
	return out
}

// values are those of an iteration, a recursion or a function that gets the input.
func (r *reader) values(in Extent) Extent {
	if in == All {
		r.ok = false
	}
	return Detached
}

func (r *reader) base(t *gojq.Term, in Extent) Extent {
	switch t.Type {
	case gojq.TermTypeIdentity:
		return in
	case gojq.TermTypeRecurse:
		return r.values(in)
	case gojq.TermTypeIndex:
		return r.index(t.Index, in, in)
	case gojq.TermTypeFunc:
		return r.call(t.Func, in)
	case gojq.TermTypeObject:
		r.object(t.Object, in)
	case gojq.TermTypeArray:
		r.detached(t.Array.Query, in)
	case gojq.TermTypeUnary:
		if r.term(t.Unary.Term, in) == All {
			r.ok = false
		}
	case gojq.TermTypeFormat:
		if t.Str == nil {
			return r.values(in)
		}
		r.text(t.Str, in)
	case gojq.TermTypeString:
		r.text(t.Str, in)
	case gojq.TermTypeIf:
		return r.conditional(t.If, in)
	case gojq.TermTypeTry:
		out := r.query(t.Try.Body, in)
		if t.Try.Catch != nil {
			out = max(out, r.query(t.Try.Catch, Detached))
		}
		return out
	case gojq.TermTypeReduce:
		return r.fold(t.Reduce.Query, t.Reduce.Patterns, t.Reduce.Start, t.Reduce.Update, nil, in)
	case gojq.TermTypeForeach:
		return r.fold(t.Foreach.Query, t.Foreach.Patterns, t.Foreach.Start, t.Foreach.Update, t.Foreach.Extract, in)
	case gojq.TermTypeLabel:
		return r.query(t.Label.Body, in)
	case gojq.TermTypeQuery:
		return r.query(t.Query, in)
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber, gojq.TermTypeBreak:
	default:
		r.ok = false
	}
	return Detached
}

// index is what a path step selects of a value. Expressions in brackets get the input of the whole term.
func (r *reader) index(i *gojq.Index, of, in Extent) Extent {
	if of == All {
		if i.Name == "" && i.Str == nil && !i.IsSlice && isZero(i.Start) {
			return First
		}
		r.ok = false
		return All
	}
	name := i.Name
	switch {
	case i.Str != nil:
		r.text(i.Str, in)
		name = literalText(i.Str)
	case i.Start != nil && i.Start.Term != nil && i.Start.Term.Type == gojq.TermTypeString && !i.IsSlice:
		name = literalText(i.Start.Term.Str)
	}
	r.detached(i.Start, in)
	r.detached(i.End, in)
	r.member(name, of)
	return Detached
}

func isZero(q *gojq.Query) bool {
	return q != nil && q.Term != nil && q.Term.Type == gojq.TermTypeNumber && q.Term.Number == "0" && len(q.Term.SuffixList) == 0
}

// literalText is a string without interpolation, or empty.
func literalText(s *gojq.String) string {
	if len(s.Queries) > 0 {
		return ""
	}
	return s.Str
}

func (r *reader) member(name string, of Extent) {
	if of == All {
		r.ok = false
	}
	if of == First && name != "" {
		r.members = append(r.members, name)
	}
}

func (r *reader) text(s *gojq.String, in Extent) {
	for _, q := range s.Queries {
		r.detached(q, in)
	}
}

func (r *reader) object(o *gojq.Object, in Extent) {
	for _, kv := range o.KeyVals {
		if kv.KeyString != nil {
			r.text(kv.KeyString, in)
		}
		r.detached(kv.KeyQuery, in)
		switch {
		case kv.Val != nil:
			r.detached(kv.Val, in)
		case kv.KeyQuery != nil:
		case strings.HasPrefix(kv.Key, "$"):
			r.values(r.vars[kv.Key])
		case kv.KeyString != nil:
			r.member(literalText(kv.KeyString), in)
		default:
			r.member(kv.Key, in)
		}
	}
}

func (r *reader) conditional(c *gojq.If, in Extent) Extent {
	r.detached(c.Cond, in)
	out := r.query(c.Then, in)
	for _, e := range c.Elif {
		r.detached(e.Cond, in)
		out = max(out, r.query(e.Then, in))
	}
	if c.Else == nil {
		return max(out, in)
	}
	return max(out, r.query(c.Else, in))
}

func (r *reader) fold(source *gojq.Query, patterns []*gojq.Pattern, start, update, extract *gojq.Query, in Extent) Extent {
	outer := maps.Clone(r.vars)
	r.bind(patterns, r.query(source, in))
	r.detached(start, in)
	r.detached(update, Detached)
	r.detached(extract, Detached)
	r.vars = outer
	return Detached
}

// bind sets the variables of patterns that get a value.
func (r *reader) bind(patterns []*gojq.Pattern, value Extent) {
	if value == All {
		r.ok = false
	}
	for _, p := range patterns {
		if p.Name != "" {
			r.vars[p.Name] = value
		}
		r.bind(p.Array, Detached)
		for _, o := range p.Object {
			if name, isVar := strings.CutPrefix(o.Key, "$"); isVar {
				r.vars[o.Key] = Detached
				r.member(name, value)
			} else {
				r.member(o.Key, value)
			}
			if o.KeyString != nil {
				r.text(o.KeyString, value)
				r.member(literalText(o.KeyString), value)
			}
			r.detached(o.KeyQuery, value)
			if o.Val != nil {
				r.bind([]*gojq.Pattern{o.Val}, Detached)
			}
		}
	}
}

// call is a variable or a function. Functions that are not listed use their whole input.
func (r *reader) call(f *gojq.Func, in Extent) Extent {
	if strings.HasPrefix(f.Name, "$") {
		return r.vars[f.Name]
	}
	switch f.Name {
	case "input", "inputs", "input_filename":
		r.ok = false
		return All
	case "select":
		for _, a := range f.Args {
			r.detached(a, in)
		}
		return in
	case "first":
		if len(f.Args) == 0 && in == All {
			return First
		}
		if len(f.Args) == 1 {
			return r.query(f.Args[0], in)
		}
	case "debug":
		if len(f.Args) == 0 && in != All {
			return in
		}
	case "empty", "now", "halt", "env":
		return Detached
	case "error":
		if len(f.Args) == 1 {
			r.detached(f.Args[0], in)
			return Detached
		}
	}
	for _, a := range f.Args {
		r.detached(a, in)
	}
	return r.values(in)
}
