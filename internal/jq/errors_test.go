package jq

import (
	"strings"
	"testing"
)

// Errors are logged, so they show nothing of an object but the types of its parts.
func TestErrorsHaveNoValues(t *testing.T) {
	const secret = "hunter2"
	input := map[string]any{"data": map[string]any{"password": secret, "pin": 4711, "list": []any{secret}}}
	for filter, want := range map[string]string{
		`.data.password | tonumber`:                  "tonumber cannot be applied to this string",
		`.data.password | fromjson`:                  "fromjson cannot be applied to this string",
		`.data.password + "!!" | @base64d`:           "@base64d cannot be applied to this string",
		`.data.password | keys`:                      "keys cannot be applied to string",
		`.data.password.x`:                           "expected an object but got string",
		`.data | .[]| .[]`:                           "cannot iterate over string",
		`.missing | map(.)`:                          "cannot iterate over null",
		`.missing[]`:                                 "cannot iterate over null",
		`.data.password + 1`:                         "cannot add string and number",
		`.data.pin - .data.list`:                     "cannot subtract number and array",
		`(.data.password + " and object (") + 1`:     "cannot add string and number",
		`.data.pin / 0`:                              "cannot divide by zero",
		`-.data`:                                     "cannot negate object",
		`.data.pin | keys`:                           "keys cannot be applied to number",
		`.data | has(.password, 1)`:                  "has cannot be applied to object",
		`.data.password as $p | "" | test($p + "(")`: "invalid regular expression",
		`.data.password | strptime("%Y")`:            "strptime cannot be applied to this string",
		`.data.list[.data.password]`:                 "expected an object but got array",
		`.data.list["a":]`:                           "expected a number for indexing an array but got string",
		`.data.list[{}]`:                             `expected "start" and "end" for slicing but got object`,
		`.data.password | error`:                     secret, // its own words
		`error("no owner")`:                          "no owner",
		`error(.)`: "the filter calls error with a value of type object: call it with a string, " +
			"which is logged",
		`halt_error`:                            "the filter calls error with a value of type object: call it with a string, which is logged",
		`error("ü" * 300)`:                      strings.Repeat("ü", 100) + "…",
		`.data.list | implode`:                  "implode cannot be applied to array",
		`getpath(["data", "password", "x"])`:    "getpath cannot be applied to this object",
		`{(.data.list | tojson | tojson): 1}.x`: "",
		`{(.data): 1}`:                          "expected a string for object key but got object",
		`.data.list | join(1;2)`:                "does not compile",
	} {
		f, err := NewCompiler(Options{}).Compile(filter)
		if err == nil {
			_, err = f.Apply(t.Context(), input)
		} else if want == "does not compile" {
			continue
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", filter, got, want)
		}
		if want != secret && (strings.Contains(got, secret) || strings.Contains(got, "4711")) {
			t.Errorf("%s: the error shows the value: %q", filter, got)
		}
	}
}
