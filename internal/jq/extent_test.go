package jq

import (
	"strings"
	"testing"
)

// TestReads lists filters with an array as their input: the extent of the output, and the members of the first element that
// they read. Without an extent, they may read other elements.
func TestReads(t *testing.T) {
	const detached, first, all, doubt = "detached", "first", "all", ""
	extents := map[Extent]string{Detached: detached, First: first, All: all}
	for _, test := range []struct{ filter, extent, members string }{
		{`.`, all, ""},
		{`.[0]`, first, ""},
		{`first`, first, ""},
		{`select(.[0].type == "Event")`, all, "type"},
		{`.[0].a.b`, detached, "a"},
		{`.[0]["a"].b`, detached, "a"},
		{`.[0]."a"?`, detached, "a"},
		{`.[0] | .a, .b`, detached, "a b"},
		{`.[0] as $c | $c.a`, detached, "a"},
		{`.[0] as {a: $x, $b} | $x + $b`, detached, "a b"},
		{`first(.[0].a)`, detached, "a"},
		{`.[0] | {a, b: .c}`, detached, "a c"},
		{`.[0].a |= 1`, all, "a"},
		{`.[0] | keys`, detached, ""},
		{`if .[0].a then .[0].b else empty end`, detached, "a b"},
		{`reduce .[0].a[] as $x (0; . + $x)`, detached, "a"},
		{`"\(.[0].a)", @json "\(.[0].b)"`, detached, "a b"},
		{`try .[0].a catch .`, detached, "a"},
		{`.[0].a // "none"`, detached, "a"},

		{`.[]`, doubt, ""}, {`..`, doubt, ""}, {`length`, doubt, ""}, {`.[-1]`, doubt, ""}, {`.[$i]`, doubt, ""}, {`.[0:1]`, doubt, ""},
		{`.[0, 1]`, doubt, ""}, {`.["a"]`, doubt, ""}, {`.[.[0].a]`, doubt, ""}, {`last`, doubt, ""}, {`map(.a)`, doubt, ""}, {`[.]`, doubt, ""},
		{`{a: .}`, doubt, ""}, {`{a}`, doubt, ""}, {`"\(.)"`, doubt, ""}, {`@json`, doubt, ""}, {`. as $a | 1`, doubt, ""}, {`. as [$a] | 1`, doubt, ""},
		{`if . then 1 else 2 end`, doubt, ""}, {`def f: .; .[0]`, doubt, ""}, {`import "a" as a; .[0]`, doubt, ""}, {`reduce .[] as $x (0; 1)`, doubt, ""},
		{`foreach .[0] as $x (.; .)`, doubt, ""}, {`.[0] | input`, doubt, ""}, {`. == 1`, doubt, ""}, {`-.`, doubt, ""}, {`limit(1; .[])`, doubt, ""}, {`.[0`, doubt, ""},
		{`getpath([0])`, doubt, ""}, {`any(.[]; .a)`, doubt, ""}, {`to_entries`, doubt, ""}, {`error`, doubt, ""}, {`.[0].a[$n] | .[1]`, detached, "a"},
	} {
		out, members, ok := Reads(test.filter, All)
		got := ""
		if ok {
			got = extents[out]
		}
		if got != test.extent || ok && strings.Join(members, " ") != test.members {
			t.Errorf("%s: %q, members %v; want %q, %s", test.filter, got, members, test.extent, test.members)
		}
	}
}
