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
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// ParsePatches reads the file at KUBERNETES_PATCH_PATH: a stream of JSON or YAML documents. All of them are checked. An error
// is a *FileError.
//
// The result aliases text, which may be large: text must not be modified afterwards.
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), lenientJSON) // a buffer is not copied
	if jsonErr := eachJSONDocument(dec, text, func(d patchDocument, _ []byte) { p.add(d) }); jsonErr != nil {
		p = &patchParser{filters: filters}
		if yamlErr := eachYAMLDocument(text, p.add); yamlErr != nil {
			p = &patchParser{violations: []Violation{unreadable(text, jsonErr, yamlErr)}}
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
	err := eachJSONDocument(dec, nil, func(d patchDocument, text []byte) {
		p.add(d)
		p.leave(file, dec.InputOffset()-int64(len(text)), text)
	})
	switch {
	case err == nil:
		return p.checked()
	case file.Size() > maxYAML:
		p = &patchParser{violations: []Violation{{Problem: fmt.Sprintf("it cannot be read as JSON: %v", err),
			Hint: fmt.Sprintf("write JSON documents; YAML of more than %d MiB is not read", maxYAML>>20)}}}
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
	patches := lastOfEachSet(p.patches)
	p.overlaps(patches)
	if len(p.violations) > 0 {
		const invalid = "the file that $KUBERNETES_PATCH_PATH names is not valid, nothing of it was carried out:"
		return nil, &FileError{p.violations, bulleted(invalid, p.violations)}
	}
	return patches, nil
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

// patchDocument is one document with its parts as JSON. An absent part is nil.
type patchDocument struct {
	Operation   string
	APIVersion  string
	Kind        string
	Namespace   string
	Name        string
	Subresource string
	JQFilter    string

	Object     json.RawMessage
	MergePatch json.RawMessage
	JSONPatch  json.RawMessage
	Regarding  json.RawMessage

	Type, Status, Reason, Message, Action, Note ownText

	IgnoreMissingObject bool
	IgnoreHookError     bool
	Force               bool

	Set        string
	Owner      json.RawMessage
	Objects    json.RawMessage
	PruneKinds json.RawMessage
	AllowEmpty bool
	Migrate    bool
	Drift      string

	// unknown are keys without a meaning.
	unknown []string
}

// ownText is the text of a key that only Condition and Event have. Other operations ignore the key, whatever its value is.
type ownText struct {
	text     string
	mistyped bool
}

// field returns a pointer to the field of a key: a *string, *ownText, *bool or *json.RawMessage; nil for an unknown key.
func (d *patchDocument) field(key string) any {
	index, known := patchFields[key]
	if !known {
		return nil
	}
	return reflect.ValueOf(d).Elem().Field(index).Addr().Interface()
}

// patchFields are the fields of a patchDocument by their keys, whose names are equal but for the case of letters.
var patchFields = func() map[string]int {
	fields := map[string]int{}
	of := reflect.TypeFor[patchDocument]()
	for _, key := range keys {
		for i := range of.NumField() {
			if strings.EqualFold(of.Field(i).Name, key) {
				fields[key] = i
			}
		}
	}
	return fields
}()

var errNoObject = errors.New("an operation must be an object; lists of operations are not supported")
