package jq

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// tree builds a complete value by walking.
func tree(w *Walker) (v any) {
	switch w.Kind() {
	case '{':
		w.Enter('{')
		m := map[string]any{}
		for name := w.Member(); name != nil; name = w.Member() {
			var text string
			_ = json.Unmarshal(name, &text)
			m[text] = tree(w)
		}
		return m
	case '[':
		w.Enter('[')
		list := []any{}
		for w.Element() {
			list = append(list, tree(w))
		}
		return list
	}
	_ = json.Unmarshal(w.Value(), &v)
	return v
}

// FuzzWalk: valid text gives what the standard library makes of it, and skipping it leads to its end. Any other text
// ends a walk somehow.
func FuzzWalk(f *testing.F) {
	for _, text := range []string{
		`{"a":{"b":[1,2.50,-0,1e400]},"c":null,"d":true,"e":false,"f":"x\n\u00e9","":{}}`, " { \"a\\\\\" : [ \"\\\"\" , \"\\\\\" , { } ] } ",
		`[]`, `[[],[{}]]`, `"x"`, ` 7 `, `null`, `{"a\"b":1}`, `{"a":`, `{"a`, `[1`, `[}`, `{]`, `{"a":}`, `"\`, `"\"`, ``, `,`, `{1:2}`,
		`["` + strings.Repeat(`\\`, 50) + `"]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, skipping := Walk(text), Walk(text)
		got := tree(&w)
		skipping.Skip()
		if !json.Valid(text) {
			return
		}
		var want any
		if json.Unmarshal(text, &want) == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
		if end := len(bytes.TrimRight(text, " \t\r\n")); w.Err() != nil || skipping.Err() != nil || w.Offset() != end ||
			skipping.Offset() != end {
			t.Errorf("%s: ended at %d and %d of %d, errors %v and %v", text, w.Offset(), skipping.Offset(), end, w.Err(), skipping.Err())
		}
	})
}

func TestCutOff(t *testing.T) {
	text := `{"a":[1,{"b":"c\"d"}],"e":{"f":null}}`
	for n := range len(text) {
		w := Walk([]byte(text[:n]))
		if w.Skip(); !errors.Is(w.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("%s: error %v", text[:n], w.Err())
		}
		w = Walk([]byte(text[:n]))
		if tree(&w); !errors.Is(w.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("%s: walked through, error %v", text[:n], w.Err())
		}
	}
}
