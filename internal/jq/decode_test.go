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

// The decoder is checked against the one of the standard library, again and again with the same decoder.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"a":{"b":[1,2.50,-0,1e400,12345678901234567890]},"c":null,"d":true,"e":false,"f":"x\n\u00e9\ud83d\ude00","":{}}`,
		`[]`, `{}`, `"x"`, ` 7 `, `null`, "{\"\xff\":\"\xff\"}", `{"a\u0062":1,"ab":2}`, `{"\ud800":"\ud800"}`,
		`{"` + strings.Repeat("long", 40) + `":1}`, `{"a":1,"a":{"b":2}}`, `{"a":`, `{"a" 1}`, `[1,]`, `{} {}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Decode(text)
		var want any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		wantErr := dec.Decode(&want)
		if wantErr == nil {
			_, wantErr = dec.Token() // the standard library does not look behind the value by itself
			if errors.Is(wantErr, io.EOF) {
				wantErr = nil
			} else if wantErr == nil {
				wantErr = errors.New("there is more")
			}
		}
		if (err != nil) != (wantErr != nil) {
			// Nesting is limited differently.
			if strings.Contains(string(text), strings.Repeat("[", 1000)) || strings.Contains(string(text), strings.Repeat(`{"":`, 1000)) {
				return
			}
			t.Fatalf("%q: error %v, the standard library's is %v", text, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
	})
}

func TestDecodeKeepsNothingOfTheText(t *testing.T) {
	text := []byte(`{"name":"value","n":1.50}`)
	v, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	want := map[string]any{"name": "value", "n": json.Number("1.50")}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got %v after the text was used for something else", v)
	}
}
