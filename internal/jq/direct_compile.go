package jq

import (
	"strconv"

	"github.com/itchyny/gojq"
)

// compileDirect returns the direct form of a query and what it reads, or false if it has none.
func compileDirect(q *gojq.Query) (c code, reads *Need, ok bool) {
	p, ok := query(q)
	if !ok {
		return code{}, nil, false
	}
	return p.code, p.reads(everything), true
}

// part is a part of a filter. reads returns what it reads of its input when out is read of its outputs.
type part struct {
	code
	reads func(out *Need) *Need
}

func query(q *gojq.Query) (p part, ok bool) {
	switch {
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return p, false
	case q.Term != nil:
		return term(q.Term)
	case q.Left == nil || q.Right == nil:
		return p, false
	}
	a, okA := query(q.Left)
	b, okB := query(q.Right)
	if !okA || !okB {
		return p, false
	}
	switch q.Op {
	case gojq.OpPipe:
		return inTurn(a, b), true
	case gojq.OpComma:
		return part{comma(a.code, b.code), func(out *Need) *Need { return merge(a.reads(out), b.reads(out)) }}, true
	}
	if a.one == nil || b.one == nil {
		return p, false
	}
	do, ok := operate(q.Op, a.one, b.one)
	return part{code{one: do}, func(*Need) *Need { return merge(a.reads(everything), b.reads(everything)) }}, ok
}

func inTurn(a, b part) part {
	return part{pipe(a.code, b.code), func(out *Need) *Need { return a.reads(b.reads(out)) }}
}

func term(t *gojq.Term) (p part, ok bool) {
	switch t.Type {
	case gojq.TermTypeIdentity:
		p, ok = part{code{one: identity}, func(out *Need) *Need { return out }}, true
	case gojq.TermTypeIndex:
		p, ok = index(t.Index)
	case gojq.TermTypeQuery:
		p, ok = query(t.Query)
	case gojq.TermTypeNull:
		p, ok = literal(nil), true
	case gojq.TermTypeTrue:
		p, ok = literal(true), true
	case gojq.TermTypeFalse:
		p, ok = literal(false), true
	case gojq.TermTypeNumber:
		n, err := strconv.Atoi(t.Number)
		p, ok = literal(n), err == nil && len(t.Number) < 10 && strconv.Itoa(n) == t.Number
	case gojq.TermTypeString:
		p, ok = literal(t.Str.Str), t.Format == "" && len(t.Str.Queries) == 0
	case gojq.TermTypeArray:
		p, ok = array(t.Array)
	case gojq.TermTypeObject:
		p, ok = object(t.Object)
	case gojq.TermTypeIf:
		p, ok = conditional(t.If)
	case gojq.TermTypeFunc:
		p, ok = call(t.Func)
	}
	for _, s := range t.SuffixList {
		if !ok {
			return p, false
		}
		var next part
		switch {
		case s.Index != nil:
			next, ok = index(s.Index)
		case s.Iter:
			next, ok = part{code{many: iterate}, func(out *Need) *Need { return &Need{rest: out} }}, true
		case s.Optional:
			continue // matters only for errors, which gojq handles
		default:
			return p, false
		}
		if ok {
			p = inTurn(p, next)
		}
	}
	return p, ok
}

func literal(v any) part {
	return part{code{one: constant(v)}, func(*Need) *Need { return touched }}
}

func index(i *gojq.Index) (p part, ok bool) {
	if name, ok := indexName(i); ok {
		return part{code{one: member(name)}, func(out *Need) *Need { return &Need{members: map[string]*Need{name: out}} }}, true
	}
	if i.IsSlice || i.Start == nil || i.Start.Term == nil || i.Start.Term.Type != gojq.TermTypeNumber || len(i.Start.Term.SuffixList) > 0 {
		return p, false
	}
	n, err := strconv.Atoi(i.Start.Term.Number)
	if err != nil || n < 0 || len(i.Start.Term.Number) > 6 {
		return p, false
	}
	return part{code{one: element(n)}, func(out *Need) *Need { return &Need{rest: out} }}, true
}

// indexName is the name of .name, ."name" and .["name"].
func indexName(i *gojq.Index) (name string, ok bool) {
	switch {
	case i.IsSlice:
	case i.Name != "":
		return i.Name, true
	case i.Str != nil:
		return i.Str.Str, len(i.Str.Queries) == 0
	case i.Start != nil && i.Start.Term != nil && i.Start.Term.Type == gojq.TermTypeString:
		t := i.Start.Term
		return t.Str.Str, t.Format == "" && len(t.Str.Queries) == 0 && len(t.SuffixList) == 0
	}
	return "", false
}

func array(a *gojq.Array) (part, bool) {
	if a.Query == nil {
		return part{collect(code{many: nothing}), func(*Need) *Need { return touched }}, true
	}
	inner, ok := query(a.Query)
	return arrayOf(inner), ok
}

func arrayOf(inner part) part {
	return part{collect(inner.code), func(out *Need) *Need { return inner.reads(out.elements()) }}
}

func object(o *gojq.Object) (p part, ok bool) {
	var fields []field
	values := map[string]part{}
	for _, kv := range o.KeyVals {
		name := kv.Key
		if kv.KeyString != nil && len(kv.KeyString.Queries) == 0 {
			name = kv.KeyString.Str
		} else if name == "" || name[0] == '$' || kv.KeyQuery != nil {
			return p, false
		}
		value := part{code{one: member(name)}, func(out *Need) *Need { return &Need{members: map[string]*Need{name: out}} }}
		if kv.Val != nil {
			if value, ok = query(kv.Val); !ok || value.one == nil {
				return p, false
			}
		}
		if _, twice := values[name]; twice {
			return p, false
		}
		values[name] = value
		fields = append(fields, field{name, value.one})
	}
	return part{construct(fields), func(out *Need) *Need {
		reads := touched
		for name, value := range values {
			reads = merge(reads, value.reads(out.member(name)))
		}
		return reads
	}}, true
}

func conditional(i *gojq.If) (p part, ok bool) {
	cond, ok := query(i.Cond)
	if !ok || cond.one == nil || len(i.Elif) > 0 {
		return p, false
	}
	then, ok := query(i.Then)
	if !ok {
		return p, false
	}
	otherwise := part{code{one: identity}, func(out *Need) *Need { return out }}
	if i.Else != nil {
		if otherwise, ok = query(i.Else); !ok {
			return p, false
		}
	}
	return branch(cond, then, otherwise), true
}

func branch(cond, then, otherwise part) part {
	return part{choose(cond.one, then.code, otherwise.code), func(out *Need) *Need {
		return merge(cond.reads(everything), merge(then.reads(out), otherwise.reads(out)))
	}}
}

// functions are the functions without arguments.
var functions = map[string]part{
	"length":     {code{one: length}, all},
	"not":        {code{one: not}, all},
	"to_entries": {code{one: toEntries}, all},
	"keys":       {code{one: keys}, func(*Need) *Need { return &Need{rest: touched} }},
	"empty":      {code{many: nothing}, func(*Need) *Need { return touched }},
}

func all(*Need) *Need { return everything }

func call(f *gojq.Func) (p part, ok bool) {
	if len(f.Args) == 0 {
		p, ok = functions[f.Name]
		return p, ok
	}
	if len(f.Args) != 1 {
		return p, false
	}
	if f.Name == "del" {
		paths, ok := deleted(f.Args[0])
		return part{remove(paths), func(out *Need) *Need { return out.without(paths) }}, ok
	}
	arg, ok := query(f.Args[0])
	if !ok {
		return p, false
	}
	switch f.Name {
	case "map":
		iteration := part{code{many: iterate}, func(out *Need) *Need { return &Need{rest: out} }}
		return arrayOf(inTurn(iteration, arg)), true
	case "select":
		itself := part{code{one: identity}, func(out *Need) *Need { return out }}
		return branch(arg, itself, functions["empty"]), arg.one != nil
	}
	return p, false
}

// deleted are the paths of the argument of del, if each consists of names.
func deleted(q *gojq.Query) (paths [][]string, ok bool) {
	switch {
	case q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return nil, false
	case q.Op == gojq.OpComma:
		a, okA := deleted(q.Left)
		b, okB := deleted(q.Right)
		return append(a, b...), okA && okB
	case q.Term == nil || q.Term.Type != gojq.TermTypeIndex:
		return nil, false
	}
	name, ok := indexName(q.Term.Index)
	path := []string{name}
	for _, s := range q.Term.SuffixList {
		if !ok || s.Index == nil {
			return nil, false
		}
		name, ok = indexName(s.Index)
		path = append(path, name)
	}
	return [][]string{path}, ok
}
