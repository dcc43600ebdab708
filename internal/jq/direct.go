package jq

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// Most filters only select values. They are evaluated here, without the interpreter of gojq, which takes about 10 times as long
// for them. This is an optimization and no second dialect: in any unusual case, above all any possible error, direct
// evaluation gives up, and gojq evaluates the filter from the beginning. Tests compare the two.

// one has exactly one output, unless it gives up.
type one func(m *machine, v any) (out any, ok bool)

// many has any number of outputs. It returns false when it or yield gives up.
type many func(m *machine, v any, yield func(any) bool) bool

// code is a filter, or a part of it, that can be evaluated directly. Exactly one field is set.
type code struct {
	one  one
	many many
}

func (c code) each(m *machine, v any, yield func(any) bool) bool {
	if c.one == nil {
		return c.many(m, v, yield)
	}
	out, ok := c.one(m, v)
	return ok && yield(out)
}

// maxDirect is the number of outputs, of the filter or of an array, above which gojq with its limits takes over.
const maxDirect = 10_000

// machine limits an evaluation.
type machine struct {
	steps   int
	started time.Time
}

const (
	// stepsPerClock is the number of outputs between two checks of the time.
	stepsPerClock = 256
	// soon is the time limit; gojq has a longer one.
	soon = 10 * time.Millisecond
)

// step counts an output and reports whether there is time left.
func (m *machine) step() bool {
	if m.steps++; m.steps%stepsPerClock != 0 {
		return true
	}
	if m.started.IsZero() {
		m.started = time.Now()
	}
	return time.Since(m.started) < soon
}

// outputs evaluates the filter.
func (c code) outputs(m *machine, v any) (outs []any, ok bool) {
	ok = c.each(m, v, func(out any) bool {
		outs = append(outs, out)
		return len(outs) <= maxDirect
	})
	return outs, ok
}

func identity(_ *machine, v any) (any, bool) { return v, true }

func constant(c any) one { return func(*machine, any) (any, bool) { return c, true } }

func member(name string) one {
	return func(_ *machine, v any) (any, bool) {
		if v == nil {
			return nil, true
		}
		m, ok := v.(map[string]any)
		return m[name], ok
	}
}

func element(i int) one {
	return func(_ *machine, v any) (any, bool) {
		if v == nil {
			return nil, true
		}
		list, ok := v.([]any)
		if i < len(list) {
			return list[i], ok
		}
		return nil, ok
	}
}

func iterate(m *machine, v any, yield func(any) bool) bool {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !m.step() || !yield(e) {
				return false
			}
		}
		return true
	case map[string]any:
		var few [fewNames]string
		for _, name := range names(v, few[:0]) {
			if !m.step() || !yield(v[name]) {
				return false
			}
		}
		return true
	}
	return false
}

// fewNames is the number of names that are sorted without an allocation.
const fewNames = 16

// names appends the names of the members of m to list, in order.
func names(m map[string]any, list []string) []string {
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func pipe(a, b code) code {
	if a.one != nil && b.one != nil {
		return code{one: func(m *machine, v any) (any, bool) {
			between, ok := a.one(m, v)
			if !ok {
				return nil, false
			}
			return b.one(m, between)
		}}
	}
	return code{many: func(m *machine, v any, yield func(any) bool) bool {
		return a.each(m, v, func(between any) bool { return b.each(m, between, yield) })
	}}
}

func comma(a, b code) code {
	return code{many: func(m *machine, v any, yield func(any) bool) bool {
		return m.step() && a.each(m, v, yield) && b.each(m, v, yield)
	}}
}

func collect(c code) code {
	return code{one: func(m *machine, v any) (any, bool) {
		list, ok := c.outputs(m, v)
		if list == nil {
			list = []any{}
		}
		return list, ok
	}}
}

// field is a member of an object construction.
type field struct {
	name  string
	value one
}

func construct(fields []field) code {
	return code{one: func(m *machine, v any) (any, bool) {
		object := make(map[string]any, len(fields))
		for _, f := range fields {
			out, ok := f.value(m, v)
			if !ok {
				return nil, false
			}
			object[f.name] = out
		}
		return object, true
	}}
}

func truth(v any) bool { return v != nil && v != false }

func not(_ *machine, v any) (any, bool) { return !truth(v), true }

func choose(cond one, then, otherwise code) code {
	if then.one != nil && otherwise.one != nil {
		return code{one: func(m *machine, v any) (any, bool) {
			c, ok := cond(m, v)
			switch {
			case !ok:
				return nil, false
			case truth(c):
				return then.one(m, v)
			}
			return otherwise.one(m, v)
		}}
	}
	return code{many: func(m *machine, v any, yield func(any) bool) bool {
		c, ok := cond(m, v)
		switch {
		case !ok:
			return false
		case truth(c):
			return then.each(m, v, yield)
		}
		return otherwise.each(m, v, yield)
	}}
}

func nothing(*machine, any, func(any) bool) bool { return true }

func length(_ *machine, v any) (any, bool) {
	switch v := v.(type) {
	case nil:
		return 0, true
	case string:
		return utf8.RuneCountInString(v), true
	case []any:
		return len(v), true
	case map[string]any:
		return len(v), true
	}
	return nil, false
}

// keys and toEntries pay: for an object of 2 KiB they take 0.2 and 3 µs, by gojq 0.9 and 23 µs (BenchmarkFilters), which is 0.2 s
// for each 10,000 objects of an initial list.

func keys(_ *machine, v any) (any, bool) {
	m, ok := v.(map[string]any)
	list := make([]any, len(m))
	var few [fewNames]string
	for i, name := range names(m, few[:0]) {
		list[i] = name
	}
	return list, ok
}

func toEntries(_ *machine, v any) (any, bool) {
	m, ok := v.(map[string]any)
	list := make([]any, len(m))
	var few [fewNames]string
	for i, name := range names(m, few[:0]) {
		list[i] = map[string]any{"key": name, "value": m[name]}
	}
	return list, ok
}

// operate returns an operator whose operands have exactly one output each. All but and, or and // evaluate both operands.
func operate(op gojq.Operator, a, b one) (one, bool) {
	both := func(do func(x, y any) (any, bool)) one {
		return func(m *machine, v any) (any, bool) {
			x, okX := a(m, v)
			y, okY := b(m, v)
			if !okX || !okY {
				return nil, false
			}
			return do(x, y)
		}
	}
	compare := func(holds func(int) bool) one {
		return both(func(x, y any) (any, bool) { return holds(gojq.Compare(x, y)), true })
	}
	switch op {
	case gojq.OpAnd, gojq.OpOr:
		return func(m *machine, v any) (any, bool) {
			x, ok := a(m, v)
			if !ok || truth(x) == (op == gojq.OpOr) {
				return truth(x), ok
			}
			y, ok := b(m, v)
			return truth(y), ok
		}, true
	case gojq.OpAlt:
		return func(m *machine, v any) (any, bool) {
			if x, ok := a(m, v); !ok || truth(x) {
				return x, ok
			}
			return b(m, v)
		}, true
	case gojq.OpEq:
		return compare(func(c int) bool { return c == 0 }), true
	case gojq.OpNe:
		return compare(func(c int) bool { return c != 0 }), true
	case gojq.OpLt:
		return compare(func(c int) bool { return c < 0 }), true
	case gojq.OpLe:
		return compare(func(c int) bool { return c <= 0 }), true
	case gojq.OpGt:
		return compare(func(c int) bool { return c > 0 }), true
	case gojq.OpGe:
		return compare(func(c int) bool { return c >= 0 }), true
	}
	return nil, false
}

// remove is del with paths of names.
func remove(paths [][]string) code {
	return code{one: func(_ *machine, v any) (any, bool) {
		for _, path := range paths {
			// A path may cause an error even if another one covers it.
			at := v
			for _, name := range path {
				m, ok := at.(map[string]any)
				if !ok && at != nil {
					return nil, false
				}
				at = m[name]
			}
		}
		for _, path := range paths {
			v = without(v, path)
		}
		return v, true
	}}
}

// without returns v without the value at path. It copies the objects that it changes.
func without(v any, path []string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	old, ok := m[path[0]]
	if !ok {
		return v
	}
	c := make(map[string]any, len(m))
	for name, value := range m {
		c[name] = value
	}
	if len(path) == 1 {
		delete(c, path[0])
	} else {
		c[path[0]] = without(old, path[1:])
	}
	return c
}
