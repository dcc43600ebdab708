package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// PatchError is everything that is wrong with a file of Kubernetes operations. It shows no values: they may be
// secret.
type PatchError struct {
	Violations []Violation
}

func (e *PatchError) Error() string {
	var b strings.Builder
	b.WriteString("the file that $KUBERNETES_PATCH_PATH names is not valid, nothing of it was carried out:")
	for _, v := range e.Violations {
		b.WriteString("\n  * " + v.String())
	}
	return b.String()
}

// ParsePatches reads the file that KUBERNETES_PATCH_PATH names: a stream of JSON or YAML documents. All of them are
// checked. An error is a *PatchError.
//
// The file may be large, and what comes of it is all that is kept: objects and patches of JSON documents are parts of text,
// which must not be changed any more.
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	if jsonErr := eachJSONDocument(text, p.add); jsonErr != nil {
		p = &patchParser{filters: filters}
		if yamlErr := eachYAMLDocument(text, p.add); yamlErr != nil {
			return nil, &PatchError{[]Violation{unreadable(text, jsonErr, yamlErr)}}
		}
	}
	if len(p.violations) > 0 {
		return nil, &PatchError{p.violations}
	}
	return p.patches, nil
}

// unreadable tells what both readers found. A file that begins like JSON most likely is meant to be JSON.
func unreadable(text []byte, jsonErr, yamlErr error) Violation {
	first, second := yamlErr, jsonErr
	names := [2]string{"YAML", "JSON"}
	if start := bytes.TrimSpace(text); bytes.HasPrefix(start, []byte("{")) || bytes.HasPrefix(start, []byte("[")) {
		first, second = jsonErr, yamlErr
		names = [2]string{"JSON", "YAML"}
	}
	return Violation{
		Problem: fmt.Sprintf("it cannot be read as %s: %v; nor as %s: %v", names[0], first, names[1], second),
		Mend:    `write JSON documents, or YAML documents with "---" between them`,
	}
}

// patchDocument is one document with its parts as JSON. A part that is not there is nil.
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

	IgnoreMissingObject bool
	IgnoreHookError     bool
	Force               bool
}

// field is where the value of a key goes: one of the three is set, or none if the key means nothing.
type field struct {
	text  *string
	truth *bool
	part  *json.RawMessage
}

// field finds a key of a document.
func (d *patchDocument) field(key string) field {
	switch key {
	case "operation":
		return field{text: &d.Operation}
	case "apiVersion":
		return field{text: &d.APIVersion}
	case "kind":
		return field{text: &d.Kind}
	case "namespace":
		return field{text: &d.Namespace}
	case "name":
		return field{text: &d.Name}
	case "subresource":
		return field{text: &d.Subresource}
	case "jqFilter":
		return field{text: &d.JQFilter}
	case "ignoreMissingObject":
		return field{truth: &d.IgnoreMissingObject}
	case "ignoreHookError":
		return field{truth: &d.IgnoreHookError}
	case "force":
		return field{truth: &d.Force}
	case "object":
		return field{part: &d.Object}
	case "mergePatch":
		return field{part: &d.MergePatch}
	case "jsonPatch":
		return field{part: &d.JSONPatch}
	}
	return field{}
}

var errNoObject = errors.New("an operation must be an object; lists of operations are not supported")
