package jq_test

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test"
)

// Functions that ignore the budget make a filter slow, wherever they are, and have inputs of bounded size.
func TestNativeFunctions(t *testing.T) {
	patient := jq.NewCompiler(jq.Options{Timeout: test.Patience})
	numbers := make([]any, 9000)
	for i := range numbers {
		numbers[i] = float64(i)
	}
	input := func(size int) map[string]any {
		return map[string]any{"s": strings.Repeat("a", size), "n": 3.0, "l": []any{"a", "b"}, "m": []any{"b"}, "numbers": numbers}
	}
	for filter, want := range map[string]string{
		`.s | gsub("a"; "b")`:                                        `"bbb"`,
		`[.s | scan("a")] | length`:                                  `3`,
		`{x: (.s | test("^a"))}`:                                     `{"x":true}`,
		`def f: sub("a"; "b"); .s | f`:                               `"baa"`,
		`"\(.s | [match("a"; "g").offset])"`:                         `"[0,1,2]"`,
		`.s | [splits("a")] | length`:                                `4`,
		`.s | split("a"; null) | length`:                             `4`,
		`.s | capture("(?<x>a)").x`:                                  `"a"`,
		`. as $o | "x" | test($o.s)`:                                 `false`,
		`reduce .s as $s (0; . + ($s | [match("a"; "g")] | length))`: `3`,
	} {
		f, err := patient.CompileOnce(filter)
		if err != nil || !f.Slow() {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got, err := f.Apply(t.Context(), input(3)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", filter, got, err, want)
		}
		if _, err := f.Apply(t.Context(), input(300<<10)); err == nil || !strings.Contains(err.Error(), "more than 256 KiB") {
			t.Errorf("%s of a large text: %v", filter, err)
		}
	}
	for filter, want := range map[string]string{`.l - .m`: `["a"]`, `.n - .n`: `0`, `.numbers - .l`: "", `.l - .numbers`: "",
		`.l -= .m | .l`: `["a"]`, `.numbers -= .l`: "",
		`.l | contains(["a"], ["c"])`: `[true,false]`,
		`.m | inside(["b"])`:          `true`, `.l | index("b")`: `1`,
		`.s | [rindex("a"), indices("aa")]`: `[2,[0,1]]`,
		`.numbers | contains([1])`:          `true`, `[.numbers, .numbers] | contains([[1, 2]])`: `true`,
		`[range(300000) | "a"] | contains(["a"])`: `true`,
		`("a" * 300000) | contains("a" * 3000)`:   `true`, `("a" * 300000) | index("ab")`: `null`,
		`[.numbers, .numbers] | . as $x | contains($x)`: "", `[[.numbers, .numbers]] | . as $x | inside($x)`: "",
		`("a" * 300000) | index("a" * 3000)`: "", `[range(30000)] | indices([range(9000)])`: "",
	} {
		f, err := patient.CompileOnce(filter)
		if err != nil || !f.Slow() {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got, err := f.Apply(t.Context(), input(3)); (err != nil) != (want == "") || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", filter, got, err, want)
		}
	}
	for _, filter := range []string{`.n - 1`, `.s | ascii_downcase`, `.s | split("a")`, `def index(f): map(f); .l | index(length)`,
		`{a: .l, b: "\(.n)"}`} {
		if f, err := patient.CompileOnce(filter); err != nil || f.Slow() {
			t.Errorf("%s is slow: %v", filter, err)
		}
	}
}
