package jq

import (
	"fmt"
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

// searches are the functions that compare each part of their input with each part of their argument, and the size of a text for them.
var searches = map[string]string{"contains": "1", "inside": "1", "index": "length", "rindex": "length", "indices": "length"}

// searchSmall is a search that fails for more than 2²⁸ comparisons. Its argument, the size of a text and its name are inserted.
const searchSmall = `. as $__in | (%[1]s) as $__arg | ` +
	`if ([$__in, $__arg | if type == "string" then %[2]s else reduce .. as $_ (0; . + 1) end] | .[0] * .[1]) > 268435456 ` +
	`then error("%[3]s has an input and an argument that need more than 268,435,456 comparisons: reduce one first") ` +
	`else $__in | %[3]s($__arg) end`

// bound bounds the inputs of native functions in a query, and reports whether it has any. The names of functions that the query defines are
// added to own.
func bound(v reflect.Value, own map[string]bool) (found bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		if def, is := v.Interface().(*gojq.FuncDef); is {
			own[def.Name] = true
		}
		found = bound(v.Elem(), own)
		switch node := v.Interface().(type) {
		case *gojq.Query:
			if (node.Op == gojq.OpSub || node.Op == gojq.OpUpdateSub) && !isNumber(node.Left) && !isNumber(node.Right) {
				node.Left, node.Right, found = small(node.Left), small(node.Right), true
			}
		case *gojq.Term:
			f := node.Func
			switch {
			case f == nil || len(f.Args) == 0 || f.Name == "split" && len(f.Args) == 1:
			case searches[f.Name] != "" && len(f.Args) == 1 && !own[f.Name]:
				query, _ := gojq.Parse(fmt.Sprintf(searchSmall, f.Args[0], searches[f.Name], f.Name))
				node.Type, node.Func, node.Query, found = gojq.TermTypeQuery, nil, query, true
			case slices.Contains(natives, f.Name):
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
			found = bound(v.Field(i), own) || found
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = bound(v.Index(i), own) || found
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
