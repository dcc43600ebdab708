package jq

import (
	"reflect"
	"slices"

	"github.com/itchyny/gojq"
)

// natives are the functions that match regular expressions. gojq computes them, and the difference of two lists, without checking the
// budget: their time grows with the square of their inputs.
var natives = []string{"match", "test", "capture", "scan", "splits", "split", "sub", "gsub"}

// smallEnough fails for a text of more than 256 KiB, and for a list with so many bytes of texts, or 8,192 entries.
const smallEnough = `if ([strings, (arrays | .[] | strings) | utf8bytelength] | add // 0) > 262144 or ` +
	`(type == "array" and length > 8192) ` +
	`then error("a regular expression, or a difference of lists, has an input of more than 256 KiB or 8,192 entries: reduce it first") ` +
	`else . end`

// bound bounds the inputs of native functions in a query, and reports whether it has any.
func bound(v reflect.Value) (found bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		found = bound(v.Elem())
		switch node := v.Interface().(type) {
		case *gojq.Query:
			if node.Op == gojq.OpSub && !isNumber(node.Left) && !isNumber(node.Right) {
				node.Left, node.Right, found = small(node.Left), small(node.Right), true
			}
		case *gojq.Term:
			if f := node.Func; f != nil && slices.Contains(natives, f.Name) && len(f.Args) > 0 {
				for i := range f.Args {
					f.Args[i] = small(f.Args[i])
				}
				call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}
				node.Type, node.Func, found = gojq.TermTypeQuery, nil, true
				node.Query = &gojq.Query{Left: small(&gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}), Op: gojq.OpPipe, Right: call}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			found = bound(v.Field(i)) || found
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = bound(v.Index(i)) || found
		}
	}
	return found
}

func isNumber(q *gojq.Query) bool { return q.Term != nil && q.Term.Type == gojq.TermTypeNumber }

// small is a query whose outputs are small enough.
func small(q *gojq.Query) *gojq.Query {
	check, _ := gojq.Parse(smallEnough) // a constant
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: &gojq.Query{Left: q, Op: gojq.OpPipe, Right: check}}}
}
