package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// ParsePatches reads the file at KUBERNETES_PATCH_PATH: a stream of JSON or YAML documents. All of them are checked. An error
// is a *FileError.
//
// The result aliases text, which may be large: text must not be modified afterwards.
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	if jsonErr := eachJSONDocument(text, p.add); jsonErr != nil {
		p = &patchParser{filters: filters}
		if yamlErr := eachYAMLDocument(text, p.add); yamlErr != nil {
			p = &patchParser{violations: []Violation{unreadable(text, jsonErr, yamlErr)}}
		}
	}
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
