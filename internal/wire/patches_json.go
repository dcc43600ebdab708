package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// eachJSONDocument yields the documents of a stream of JSON values, with their text, until do returns false. Their parts alias text, which
// is all of the stream. If it is nil, they are valid during the call only.
func eachJSONDocument(dec *jsontext.Decoder, text []byte, do func(*patchDocument, []byte) bool) error {
	for number := 1; ; number++ {
		value, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
			return fmt.Errorf("document %d, byte %d: %w", number, syntax.ByteOffset, syntax.Err)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		if end := dec.InputOffset(); text != nil {
			value = text[end-int64(len(value)) : end : end]
		}
		d, err := jsonDocument(value)
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		if !do(d, value) {
			return nil
		}
	}
}

// keys are the keys of the fields of an Operation, in order. They match in any case.
var keys = func() (all []string) {
	for f := range reflect.TypeFor[Operation]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, key)
	}
	return all
}()

// jsonDocument reads a document that is valid JSON. The last of duplicate keys counts.
func jsonDocument(text []byte) (*patchDocument, error) {
	d := new(patchDocument)
	w := jq.Walk(text)
	if w.Kind() == 'n' {
		return d, nil // null
	}
	if !w.Enter('{') {
		return d, errNoObject
	}
	for name := w.Member(); name != nil; name = w.Member() {
		if err := d.set(knownKey(name), w.Value()); err != nil {
			return d, err
		}
	}
	return d, w.Err()
}

// knownKey returns the key for a quoted name, or the name if it is unknown.
func knownKey(quoted []byte) string {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted)
	}
	for _, key := range keys {
		if bytes.EqualFold(name, []byte(key)) {
			return key
		}
	}
	return string(name)
}

// readText decodes a string as encoding/json does, with a fast path for most of them.
func readText(value []byte, into *string) error {
	if value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		*into = string(value[1 : len(value)-1])
		return nil
	}
	return json.Unmarshal(value, into)
}
