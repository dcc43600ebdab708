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

// PatchError lists all errors in a file of Kubernetes operations. It shows no values, which may be secret.
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

// ParsePatches reads the file at KUBERNETES_PATCH_PATH: a stream of JSON or YAML documents. All of them are checked. An error
// is a *PatchError.
//
// The result aliases text, which may be large: text must not be modified afterwards.
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	p := &patchParser{filters: filters}
	if jsonErr := eachJSONDocument(text, p.add); jsonErr != nil {
		p = &patchParser{filters: filters}
		if yamlErr := eachYAMLDocument(text, p.add); yamlErr != nil {
			return nil, &PatchError{[]Violation{unreadable(text, jsonErr, yamlErr)}}
		}
	}
	patches := lastOfEachSet(p.patches)
	p.overlaps(patches)
	if len(p.violations) > 0 {
		return nil, &PatchError{p.violations}
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

// field is the destination of a key's value: one of the four is set, or none for an unknown key.
type field struct {
	text  *string
	own   *ownText
	truth *bool
	part  *json.RawMessage
}

// field returns the destination of a key.
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
	case "regarding":
		return field{part: &d.Regarding}
	case "type":
		return field{own: &d.Type}
	case "status":
		return field{own: &d.Status}
	case "reason":
		return field{own: &d.Reason}
	case "message":
		return field{own: &d.Message}
	case "action":
		return field{own: &d.Action}
	case "note":
		return field{own: &d.Note}
	case "set":
		return field{text: &d.Set}
	case "drift":
		return field{text: &d.Drift}
	case "owner":
		return field{part: &d.Owner}
	case "objects":
		return field{part: &d.Objects}
	case "pruneKinds":
		return field{part: &d.PruneKinds}
	case "allowEmpty":
		return field{truth: &d.AllowEmpty}
	case "migrate":
		return field{truth: &d.Migrate}
	}
	return field{}
}

var errNoObject = errors.New("an operation must be an object; lists of operations are not supported")
