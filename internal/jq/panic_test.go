package jq

import (
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
)

// A filter that panics has failed, and that is all. The filters are evaluated directly or by gojq, for values and for texts.
func TestPanicIsTheFiltersFailure(t *testing.T) {
	const secret = "hunter2"
	query, err := gojq.Parse("boom")
	if err != nil {
		t.Fatal(err)
	}
	boom := func(v any, _ []any) any {
		if v == nil {
			return v.([]any)[0] // a runtime.Error
		}
		panic(secret)
	}
	program, err := gojq.Compile(query, gojq.WithFunction("boom", 0, 0, boom))
	if err != nil {
		t.Fatal(err)
	}
	direct := &code{one: func(_ *machine, v any) (any, bool) { return boom(v, nil), true }}
	for name, f := range map[string]*Filter{
		"by gojq":  {code: program, timeout: time.Minute, reads: everything},
		"directly": {code: program, timeout: time.Minute, reads: everything, direct: direct},
	} {
		for _, text := range []string{`{"a": 1}`, `null`} {
			v, err := Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Apply(t.Context(), v)
			o := NewObject([]byte(text), NeedOf(f))
			_, errOfObject := f.ApplyTo(t.Context(), o)
			for _, err := range []error{err, errOfObject} {
				if err == nil || !strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), secret) {
					t.Errorf("%s, of %s: error %v", name, text, err)
				}
			}
		}
	}
}

// Programs that have made the library panic. See https://github.com/itchyny/gojq/issues/291.
func TestProgramsThatPanicked(t *testing.T) {
	for _, text := range []string{`0[]`, `"a"[]`, `null[]`, `0[]?`, `{}[]`} {
		f, err := NewCompiler(Options{}).Compile(text)
		if err != nil {
			continue
		}
		out, err := f.Apply(t.Context(), map[string]any{})
		t.Logf("%s: %s, error %v", text, out, err)
		if err != nil && strings.Contains(err.Error(), "panic") {
			t.Errorf("%s panics: %v", text, err)
		}
	}
}
