package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// ParsePatches reads the file at KUBERNETES_PATCH_PATH: a stream of JSON or YAML documents. All of them are checked.
//
// The result aliases text, which may be large: text must not be modified afterwards.
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), lenientJSON) // a buffer is not copied
	if jsonErr := eachJSONDocument(dec, text, func(d *patchDocument, _ []byte) bool { return p.add(d) }); jsonErr != nil {
		p = &patchParser{filters: filters}
		if yamlErr := eachYAMLDocument(text, p.add); yamlErr != nil {
			p = &patchParser{}
			p.violations.add(unreadable(text, jsonErr, yamlErr))
		}
	}
	return p.checked()
}

// maxYAML limits files of YAML, which are in memory as a whole.
const maxYAML = 32 << 20

// ReadPatches reads a large file as ParsePatches does, but holds one document of JSON at a time. What a patch sends stays in the file,
// which must stay open until the patch is sent.
func ReadPatches(file *io.SectionReader, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	dec := jsontext.NewDecoder(io.NewSectionReader(file, 0, file.Size()), lenientJSON)
	err := eachJSONDocument(dec, nil, func(d *patchDocument, text []byte) bool {
		more := p.add(d)
		if p.violations.count() == 0 {
			p.leave(file, dec.InputOffset()-int64(len(text)), text)
		}
		return more
	})
	switch {
	case err == nil:
		return p.checked()
	case file.Size() > maxYAML:
		p = &patchParser{}
		p.violations.add(Violation{Problem: fmt.Sprintf("it cannot be read as JSON: %v", err),
			Hint: fmt.Sprintf("write JSON documents; YAML of more than %d MiB is not read", maxYAML>>20)})
		return p.checked()
	}
	text := make([]byte, file.Size())
	if _, err := file.ReadAt(text, 0); err != nil {
		return nil, err
	}
	return ParsePatches(text, filters)
}

var errChanged = errors.New("a process that the hook left behind has changed its file of operations")

// leave drops what the last patch sends, and makes its Whole read it again: the text at a place of the file.
func (p *patchParser) leave(file io.ReaderAt, start int64, text []byte) {
	patch := &p.patches[len(p.patches)-1]
	seed := maphash.MakeSeed()
	number, size, sum := patch.Number, len(text), maphash.Bytes(seed, text)
	patch.Object, patch.Body, patch.Filter = nil, nil, ""
	if patch.Set != nil {
		for i := range patch.Set.Objects {
			patch.Set.Objects[i].Object = nil
		}
	}
	patch.Read = func() (effect.Patch, error) {
		text := make([]byte, size)
		if _, err := file.ReadAt(text, start); err != nil || maphash.Bytes(seed, text) != sum {
			return effect.Patch{}, cmp.Or(err, errChanged)
		}
		d, err := jsonDocument(text)
		return (&patchParser{filters: p.filters}).patch(number, d), err
	}
}

// checked returns the patches that are carried out, unless one of the documents is invalid.
func (p *patchParser) checked() ([]effect.Patch, error) {
	if p.violations.count() > 0 {
		text := p.violations.bulleted("the file that $KUBERNETES_PATCH_PATH names is not valid, nothing of it was carried out:")
		if p.hopeless() {
			text += "\n  … and the rest of the file was not read"
		}
		return nil, errors.New(text)
	}
	if p.sets {
		return lastOfEachSet(p.patches), nil
	}
	return p.patches, nil
}

// unreadable combines the errors of both parsers, first the one of the likely format.
func unreadable(text []byte, jsonErr, yamlErr error) Violation {
	first, second := yamlErr, jsonErr
	names := [2]string{"YAML", "JSON"}
	if start := bytes.TrimSpace(text); bytes.HasPrefix(start, []byte("{")) || bytes.HasPrefix(start, []byte("[")) {
		first, second = jsonErr, yamlErr
		names = [2]string{"JSON", "YAML"}
	}
	return Violation{
		Problem: fmt.Sprintf("it cannot be read as %s: %v; nor as %s: %v", names[0], first, names[1], second),
		Hint:    `write JSON documents, or YAML documents with "---" between them`,
	}
}

// patchDocument is one document, with its parts as JSON. An absent part is nil.
type patchDocument struct {
	Operation
	number int
	// unknown are keys without a meaning. mistyped are keys that only a Condition or an Event has, with values that are no texts.
	unknown, mistyped []string
}

// field returns a pointer to the field of a key: a *string, *bool or *json.RawMessage; nil for an unknown key.
func (d *patchDocument) field(key string) any {
	index := slices.Index(keys, key)
	if index < 0 {
		return nil
	}
	return reflect.ValueOf(&d.Operation).Elem().Field(index).Addr().Interface()
}

// set reads the value of a key, which is valid JSON.
func (d *patchDocument) set(key string, value []byte) (err error) {
	switch into := d.field(key).(type) {
	case *json.RawMessage:
		*into = value[:len(value):len(value)]
	case *string:
		if value[0] != '"' && value[0] != 'n' && slices.Contains(reported, key) {
			d.mistyped = append(d.mistyped, key)
			return nil
		}
		err = readText(value, into)
	case *bool:
		err = json.Unmarshal(value, into)
	default:
		d.unknown = append(d.unknown, key)
	}
	if err == nil {
		return nil
	}
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
		return fmt.Errorf("%s must be of type %s, not %s", key, mistyped.Type, mistyped.Value)
	}
	return err
}

var errNoObject = errors.New("an operation must be an object; lists of operations are not supported")
