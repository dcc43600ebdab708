package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// patchParser checks documents and collects violations.
type patchParser struct {
	filters    *jq.Compiler
	patches    []effect.Patch
	violations violations
	// read and invalid are numbers of documents. sets: one of them is a Sync.
	read, invalid int
	sets          bool
}

// add checks a document, and reports whether further ones are to be read.
func (p *patchParser) add(d *patchDocument) bool {
	before, number := len(p.violations.first), p.violations.count()
	p.read++
	patch := p.patch(p.read, d)
	switch p.violations.count() {
	case 0:
		p.patches = append(p.patches, patch)
	case number:
	default:
		p.patches, p.invalid = nil, p.invalid+1
	}
	for i := range p.violations.first[before:] {
		v := &p.violations.first[before+i]
		_, field, _ := strings.Cut(v.Path, ": ")
		if near := spelling.Nearest(field, d.unknown); near != "" && v.Hint == "" && strings.HasPrefix(v.Problem, "is required") {
			v.Hint = fmt.Sprintf("the document has the unknown key %q: did you mean %q?", near, field)
		}
	}
	return !p.hopeless()
}

// hopeless reports that the file has many documents, of which none is valid.
func (p *patchParser) hopeless() bool { return p.invalid == p.read && p.invalid >= maxReported }

func (p *patchParser) wrong(number int, field, problem, hint string) {
	p.violations.add(Violation{
		Path: strings.TrimSuffix(fmt.Sprintf("document %d: %s", number, field), ": "), Problem: problem, Hint: hint,
	})
}

// required checks that values are present; pairs are fields and their values.
func (p *patchParser) required(number int, what string, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			p.wrong(number, pairs[i], "is required"+what, "")
		}
	}
}

// inPath checks values that become parts of the path of a request; pairs are fields and their values. Hooks take names from
// objects that others write: ".." must not turn the deletion of an object into the deletion of its namespace.
func (p *patchParser) inPath(number int, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if problems := content.IsPathSegmentName(pairs[i+1]); len(problems) > 0 {
			p.wrong(number, pairs[i], fmt.Sprintf("%.100q %s", pairs[i+1], strings.Join(problems, " and ")), "write the name of one object")
		}
	}
}

func (p *patchParser) patch(number int, d *patchDocument) effect.Patch {
	name := d.Operation.Operation
	d.number = number
	out := effect.Patch{
		Operation: effect.ParseOperation(name), Number: number,
		APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name,
		Subresource:         strings.TrimPrefix(d.Subresource, "/"),
		IgnoreMissingObject: d.IgnoreMissingObject, Force: d.Force,
	}
	p.inPath(number, "subresource", out.Subresource)
	switch {
	case name == "":
		p.wrong(number, "operation", "is required", "write one of "+strings.Join(effect.Operations(), ", "))
		return out
	case out.Operation == 0:
		hint := "write one of " + strings.Join(effect.Operations(), ", ")
		if near := spelling.Nearest(name, effect.Operations()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		p.wrong(number, "operation", fmt.Sprintf("%q is unknown", name), hint)
		return out
	case out.Operation == effect.Sync:
		p.sets = true
		p.set(&out, d)
		return out
	case out.Operation.HasObject():
		if out.Subresource != "" && out.Operation != effect.Create && out.Operation != effect.ServerSideApply {
			p.wrong(number, "subresource", "is not possible with "+name, "use Create or Apply")
		}
		p.manifest(&out, "object", d.Object)
		return out
	case out.Operation == effect.RecordEvent:
		p.event(&out, d)
		return out
	}
	p.required(number, " for "+name, "kind", d.Kind, "name", d.Name)
	p.inPath(number, "name", d.Name, "namespace", d.Namespace)
	if strings.Count(d.APIVersion, "/") > 1 {
		p.wrong(number, "apiVersion", "has too many slashes", `write "group/version" or "version"`)
	}
	if out.Operation.Deletes() && out.Subresource != "" {
		p.wrong(number, "subresource", "cannot be deleted", "remove the key if the whole object is meant")
	}
	switch out.Operation {
	case effect.MergePatch:
		out.Body = p.mergePatch(number, d.MergePatch)
	case effect.JSONPatch:
		out.Body = p.jsonPatch(number, d.JSONPatch)
	case effect.JQPatch:
		out.Filter = p.filter(number, d.JQFilter)
	case effect.SetCondition:
		p.condition(&out, d)
	}
	out.IgnoreHookError = d.IgnoreHookError && !out.Operation.Deletes() && out.Subresource == "status"
	return out
}

// part returns a part of a document as JSON. A part may also be a string with YAML or JSON.
func (p *patchParser) part(number int, field string, raw json.RawMessage) (json.RawMessage, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		p.wrong(number, field, "is required", "")
		return nil, false
	}
	if raw[0] != '"' {
		return raw, true
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		p.wrong(number, field, err.Error(), "")
		return nil, false
	}
	if tooLarge([]byte(text)) {
		p.wrong(number, field, "is a string: "+errTooLarge.Error(), "")
		return nil, false
	}
	node, err := FirstDocument([]byte(text))
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err != nil {
		problem, hint := SyntaxError([]byte(text), err)
		p.wrong(number, field, "is a string that is neither YAML nor JSON: "+problem, hint)
		return nil, false
	}
	converted, err := YAMLToJSON(node)
	if err != nil {
		p.wrong(number, field, err.Error(), "")
	}
	return converted, err == nil
}

func (p *patchParser) mergePatch(number int, raw json.RawMessage) []byte {
	raw, ok := p.part(number, "mergePatch", raw)
	if !ok {
		return nil
	}
	if w := jq.Walk(raw); !w.Enter('{') || w.Kind() == '}' {
		p.wrong(number, "mergePatch", "must be an object with at least one key", "")
	}
	return raw
}

// jsonOperation is one step of a JSON patch. Value distinguishes null from an absent key.
type jsonOperation struct {
	Op    string   `json:"op"`
	Path  *string  `json:"path"`
	From  *string  `json:"from"`
	Value presence `json:"value"`
}

// presence reports whether there is a value of any type.
type presence bool

func (p *presence) UnmarshalJSON([]byte) error {
	*p = true
	return nil
}

func (p *patchParser) jsonPatch(number int, raw json.RawMessage) []byte {
	raw, ok := p.part(number, "jsonPatch", raw)
	if !ok {
		return nil
	}
	var steps []jsonOperation
	if err := json.Unmarshal(raw, &steps); err != nil || len(steps) == 0 {
		p.wrong(number, "jsonPatch", "must be a list of operations such as {op: add, path: /data/key, value: text}", "")
		return nil
	}
	for i, s := range steps {
		p.step(number, indexed("jsonPatch", i), s)
	}
	return raw
}

func (p *patchParser) step(number int, at string, s jsonOperation) {
	allowed := []string{"add", "remove", "replace", "move", "copy", "test"}
	if !slices.Contains(allowed, s.Op) {
		p.wrong(number, at+".op", notOneOf(s.Op, allowed), "")
		return
	}
	if s.Path == nil {
		p.wrong(number, at+".path", "is required", "")
	} else if *s.Path != "" && !strings.HasPrefix(*s.Path, "/") {
		p.wrong(number, at+".path", fmt.Sprintf("%q does not begin with a slash", *s.Path), `write for instance "/metadata/labels/app"`)
	}
	if (s.Op == "move" || s.Op == "copy") && s.From == nil {
		p.wrong(number, at+".from", "is required for "+s.Op, "")
	}
	if (s.Op == "add" || s.Op == "replace" || s.Op == "test") && !s.Value {
		p.wrong(number, at+".value", "is required for "+s.Op, "")
	}
}

func (p *patchParser) filter(number int, text string) string {
	if text == "" {
		p.wrong(number, "jqFilter", "is required for JQPatch", "")
		return ""
	}
	if _, err := p.filters.CompileOnce(text); err != nil {
		p.wrong(number, "jqFilter", fmt.Sprintf("does not compile: %v", err), "")
	}
	return text
}
