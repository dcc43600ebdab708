package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// Everything that can be evaluated directly gives what gojq gives, also with a tree that was decoded only as far as a
// filter, or several filters together, read it: random filters of random objects, and errors too.
func TestDirectAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := NewCompiler(Options{})
		for range 20 {
			texts, filters := someFilters(t, c, r)
			for range 10 {
				text, _ := json.Marshal(randomValue(r, 4))
				compareDirect(t, text, texts, filters)
			}
		}
	}
}

func someFilters(t *testing.T, c *Compiler, r *rand.Rand) (texts []string, filters []*Filter) {
	t.Helper()
	for range 1 + r.IntN(4) {
		text := randomFilter(r, 3)
		f, err := c.Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		texts, filters = append(texts, text), append(filters, f)
	}
	return texts, filters
}

// The same, but each byte of the input decides one thing, so that the fuzzer sees what its changes lead to. An input is
// a few filters and one object: compiling takes most of the time.
func FuzzDirect(f *testing.F) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		input := make([]byte, 10*(1+seed))
		for i := range input {
			input[i] = byte(r.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 1000 {
			t.Skip()
		}
		r := rand.New(&choices{input})
		texts, filters := someFilters(t, NewCompiler(Options{}), r)
		text, _ := json.Marshal(randomValue(r, 4))
		compareDirect(t, text, texts, filters)
	})
}

// choices are random numbers from the fuzzer: a byte for each.
type choices struct{ left []byte }

func (c *choices) Uint64() uint64 {
	if len(c.left) == 0 {
		return math.MaxUint64 // leads to the ends of all trees
	}
	b := c.left[0]
	c.left = c.left[1:]
	return uint64(b) * 0x0101010101010101
}

// compareDirect applies filters to a text in both ways. It returns how many results came directly.
func compareDirect(t *testing.T, text []byte, texts []string, filters []*Filter) (direct int) {
	t.Helper()
	ctx := context.Background()
	passing := bytes.Clone(text)
	o := NewObject(passing, NeedOf(filters...))
	results, errs := make([][]byte, len(filters)), make([]error, len(filters))
	for i, f := range filters {
		results[i], errs[i] = f.ApplyTo(ctx, o)
	}
	clear(passing) // nothing of it may be in a result
	for i, f := range filters {
		tree, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if f.direct != nil {
			if _, ok := f.applyDirectly(tree); ok {
				direct++
			}
		}
		want, wantErr := f.applyByGojq(ctx, tree)
		got, gotErr := results[i], errs[i]
		if !bytes.Equal(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("%s of %s, beside %q:\n got %s, error %v\nwant %s, error %v", texts[i], text, texts, got, gotErr, want, wantErr)
		}
	}
	return direct
}

var someNames = []string{"a", "b", "c", "long name", "ü\n", ""}

func randomValue(r *rand.Rand, depth int) any {
	kind := r.IntN(9)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return []any{0, 1, -3, 2.5, json.Number("1.0"), json.Number("1e400"), json.Number("12345678901234567890")}[r.IntN(7)]
	case 3, 4:
		return []string{"", "x", "a", "1", "ä☃", "\"\\\n\x7f", strings.Repeat("y", 70)}[r.IntN(7)]
	case 5:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range r.IntN(5) {
		m[someNames[r.IntN(len(someNames))]] = randomValue(r, depth-1)
	}
	return m
}

func randomPath(r *rand.Rand) string {
	path := ""
	for range 1 + r.IntN(3) {
		name := someNames[r.IntN(len(someNames))]
		quoted, _ := json.Marshal(name)
		switch {
		case r.IntN(3) == 0:
			path += "[" + string(quoted) + "]"
		case len(name) == 1:
			path += "." + name
		default:
			path += "." + string(quoted)
		}
	}
	if path[0] == '[' {
		path = "." + path
	}
	return path
}

// randomFilter makes mostly filters that can be evaluated directly, and a few that cannot.
func randomFilter(r *rand.Rand, depth int) string {
	sub := func() string { return randomFilter(r, depth-1) }
	if depth == 0 {
		return []string{".", randomPath(r), randomPath(r), randomPath(r) + "?", ".[]", ".[]?", ".[0]", ".a[1]", "1", `"text"`, "null", "true",
			"[]", "{}", "length", "keys", "not", "to_entries", "type", "empty"}[r.IntN(20)]
	}
	switch r.IntN(18) {
	case 0, 1, 2:
		return "(" + sub() + " | " + sub() + ")"
	case 3:
		return "(" + sub() + ", " + sub() + ")"
	case 4:
		return "[" + sub() + "]"
	case 5, 6:
		return "{a: " + sub() + ", \"b\": " + sub() + ", c}"
	case 7:
		return "map(" + sub() + ")"
	case 8:
		return "select(" + sub() + ")"
	case 9:
		return "(" + sub() + " " + []string{"==", "!=", "<", "<=", ">", ">=", "and", "or", "//", "+"}[r.IntN(10)] + " " + sub() + ")"
	case 10:
		return "if " + sub() + " then " + sub() + " else " + sub() + " end"
	case 11:
		return "if " + sub() + " then " + sub() + " end"
	case 12:
		return "del(" + randomPath(r) + ")"
	case 13:
		return "del(" + randomPath(r) + ", " + randomPath(r) + ")"
	case 14:
		return "(" + sub() + " | " + randomPath(r) + ")"
	case 15:
		return []string{".. ", "tostring", "first(.[]?)", "sort_by(.a)", "with_entries(.)", "(.a as $x | $x)", "(try error(.) catch .)",
			"(def f: .a; f)", "@json", "-1"}[r.IntN(10)]
	}
	return randomFilter(r, 0)
}

// Long evaluations are left to gojq, which enforces the time limit.
func TestDirectEnds(t *testing.T) {
	c := NewCompiler(Options{})
	doubled := strings.Repeat(" | (., .)", 60)
	for _, text := range []string{"." + doubled, "." + doubled + " | empty", "[." + doubled + "]"} {
		f, err := c.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if f.direct == nil {
			t.Errorf("%.20s… is not evaluated directly", text)
		} else if _, ok := f.applyDirectly(nil); ok {
			t.Errorf("%.20s… has a result", text)
		}
	}
}

// A value that no filter reads is not decoded.
func TestDecodedAsFarAsNeeded(t *testing.T) {
	c := NewCompiler(Options{})
	text := []byte(`{"metadata":{"name":"n","labels":{"a":"b"},"uid":"u"},"spec":{"list":[{"x":1,"y":2}],"other":[1]},"data":{"k":"v"}}`)
	for _, tt := range []struct{ filters, want string }{
		{".metadata.name", `{"metadata":{"name":"n"}}`},
		{"[.spec.list[].x]", `{"spec":{"list":[{"x":1}]}}`},
		{".data | keys", `{"data":{"k":""}}`},
		{".data.k // .data.l", `{"data":{"k":"v"}}`},
		{"del(.data, .metadata.uid)", `{"metadata":{"labels":{"a":"b"},"name":"n"},"spec":{"list":[{"x":1,"y":2}],"other":[1]}}`},
		{"select(.metadata.uid == \"u\") | {n: .metadata.name}", `{"metadata":{"name":"n","uid":"u"}}`},
		{".metadata.name & .data", `{"data":{"k":"v"},"metadata":{"name":"n"}}`},
		{".metadata.name & ..", string(text)},
	} {
		var filters []*Filter
		for _, filter := range strings.Split(tt.filters, " & ") {
			f, err := c.Compile(filter)
			if err != nil {
				t.Fatal(err)
			}
			filters = append(filters, f)
		}
		tree := decode(text, NeedOf(filters...), false)
		got, _ := json.Marshal(tree)
		var want any
		_ = json.Unmarshal([]byte(tt.want), &want)
		if wanted, _ := json.Marshal(want); !bytes.Equal(got, wanted) {
			t.Errorf("%s: got %s, want %s", tt.filters, got, wanted)
		}
	}
}

// Equal filters are evaluated once for an object.
func TestEqualFiltersShareTheirResult(t *testing.T) {
	c := NewCompiler(Options{})
	f, _ := c.Compile(".a")
	o := NewObject([]byte(`{"a":"text"}`), NeedOf(f))
	first, _ := f.ApplyTo(t.Context(), o)
	second, _ := f.ApplyTo(t.Context(), o)
	if &first[0] != &second[0] {
		t.Error("the result is there twice")
	}
}
