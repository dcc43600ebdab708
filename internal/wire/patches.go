package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"

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
func ParsePatches(text []byte, filters *jq.Compiler) ([]effect.Patch, error) {
	documents, jsonErr := jsonDocuments(text)
	if jsonErr != nil {
		var yamlErr error
		if documents, yamlErr = yamlDocuments(text); yamlErr != nil {
			return nil, &PatchError{[]Violation{unreadable(text, jsonErr, yamlErr)}}
		}
	}
	p := &patchParser{filters: filters}
	patches := make([]effect.Patch, len(documents))
	for i, d := range documents {
		patches[i] = p.patch(i+1, d)
	}
	if len(p.violations) > 0 {
		return nil, &PatchError{p.violations}
	}
	return patches, nil
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

var errNoObject = errors.New("an operation must be an object; lists of operations are not supported")

// jsonDocuments reads a stream of JSON values. Keys match in any case.
func jsonDocuments(text []byte) ([]patchDocument, error) {
	var documents []patchDocument
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var d patchDocument
		err := dec.Decode(&d)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			var mistyped *json.UnmarshalTypeError
			if errors.As(err, &mistyped) && mistyped.Field == "" {
				return nil, fmt.Errorf("document %d: %w", len(documents)+1, errNoObject)
			}
			if mistyped != nil {
				return nil, fmt.Errorf("document %d: %s must be of type %s, not %s", len(documents)+1, mistyped.Field, mistyped.Type, mistyped.Value)
			}
			return nil, fmt.Errorf("document %d, byte %d: %w", len(documents)+1, dec.InputOffset(), err)
		}
		documents = append(documents, d)
	}
}

// yamlDocuments reads a stream of YAML documents. Scalars count as text where text is wanted.
func yamlDocuments(text []byte) ([]patchDocument, error) {
	var documents []patchDocument
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %s", len(documents)+1, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		d, err := yamlDocument(&node)
		if err != nil {
			return nil, fmt.Errorf("document %d, %w", len(documents)+1, err)
		}
		documents = append(documents, d)
	}
	if len(documents) == 1 && onlyComments(text) {
		return nil, nil
	}
	return documents, nil
}

func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func yamlDocument(node *yaml.Node) (patchDocument, error) {
	var d patchDocument
	root := node
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	switch {
	case root.Kind == 0 || root.ShortTag() == "!!null":
		return d, nil
	case root.Kind != yaml.MappingNode:
		return d, fmt.Errorf("line %d: %w", root.Line, errNoObject)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if err := d.set(key.Value, value); err != nil {
			return d, fmt.Errorf("line %d: %s %w", value.Line, key.Value, err)
		}
	}
	return d, nil
}

func (d *patchDocument) set(key string, value *yaml.Node) (err error) {
	texts := map[string]*string{
		"operation": &d.Operation, "apiVersion": &d.APIVersion, "kind": &d.Kind, "namespace": &d.Namespace,
		"name": &d.Name, "subresource": &d.Subresource, "jqFilter": &d.JQFilter,
	}
	truths := map[string]*bool{"ignoreMissingObject": &d.IgnoreMissingObject, "ignoreHookError": &d.IgnoreHookError, "force": &d.Force}
	trees := map[string]*json.RawMessage{"object": &d.Object, "mergePatch": &d.MergePatch, "jsonPatch": &d.JSONPatch}
	switch {
	case texts[key] != nil:
		if value.Kind != yaml.ScalarNode {
			return errors.New("must be a string")
		}
		if value.ShortTag() != "!!null" {
			*texts[key] = value.Value
		}
	case truths[key] != nil:
		if value.ShortTag() == "!!null" {
			return nil
		}
		if err := value.Decode(truths[key]); err != nil || value.Kind != yaml.ScalarNode {
			return errors.New("must be true or false")
		}
	case trees[key] != nil:
		*trees[key], err = yamlToJSON(value)
	}
	return err
}

// yamlToJSON keeps the text of times, and makes text of keys that are none.
func yamlToJSON(node *yaml.Node) (json.RawMessage, error) {
	keepTimes(node, map[*yaml.Node]bool{})
	var tree any
	if err := node.Decode(&tree); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	tree, err := textKeys(tree)
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func keepTimes(node *yaml.Node, seen map[*yaml.Node]bool) {
	if seen[node] {
		return
	}
	seen[node] = true
	if node.ShortTag() == "!!timestamp" || node.ShortTag() == "!!binary" {
		node.Tag = "!!str"
	}
	if node.Alias != nil {
		keepTimes(node.Alias, seen)
	}
	for _, child := range node.Content {
		keepTimes(child, seen)
	}
}

func textKeys(tree any) (any, error) {
	var err error
	switch tree := tree.(type) {
	case map[string]any:
		for k, v := range tree {
			if tree[k], err = textKeys(v); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, v := range tree {
			if tree[i], err = textKeys(v); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		texts := make(map[string]any, len(tree))
		for k, v := range tree {
			switch k.(type) {
			case map[string]any, map[any]any, []any:
				return nil, errors.New("has a key that is not text")
			}
			if texts[fmt.Sprint(k)], err = textKeys(v); err != nil {
				return nil, err
			}
		}
		return texts, nil
	}
	return tree, nil
}

// patchParser checks documents and collects what is wrong with them.
type patchParser struct {
	filters    *jq.Compiler
	violations []Violation
}

// maxViolations keeps an error readable when a hook gets every one of a thousand operations wrong.
const maxViolations = 20

func (p *patchParser) wrong(number int, field, problem, mend string) {
	if len(p.violations) == maxViolations {
		p.violations = append(p.violations, Violation{Problem: "and more of this kind"})
	}
	if len(p.violations) > maxViolations {
		return
	}
	p.violations = append(p.violations, Violation{
		Path: strings.TrimSuffix(fmt.Sprintf("document %d: %s", number, field), ": "), Problem: problem, Mend: mend,
	})
}

// required takes pairs of a field and its value.
func (p *patchParser) required(number int, what string, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			p.wrong(number, pairs[i], "is required"+what, "")
		}
	}
}

// inPath takes pairs of a field and its value, which becomes a part of the path of a request. Hooks take names out of
// objects that others write: ".." must not turn the deletion of an object into that of its namespace.
func (p *patchParser) inPath(number int, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if problems := content.IsPathSegmentName(pairs[i+1]); len(problems) > 0 {
			p.wrong(number, pairs[i], fmt.Sprintf("%.100q %s", pairs[i+1], strings.Join(problems, " and ")), "write the name of one object")
		}
	}
}

func (p *patchParser) patch(number int, d patchDocument) effect.Patch {
	out := effect.Patch{
		Operation: effect.ParseOperation(d.Operation), Number: number,
		APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name,
		Subresource:         strings.TrimPrefix(d.Subresource, "/"),
		IgnoreMissingObject: d.IgnoreMissingObject, Force: d.Force,
	}
	p.inPath(number, "subresource", out.Subresource)
	switch {
	case d.Operation == "":
		p.wrong(number, "operation", "is required", "write one of "+strings.Join(effect.Operations(), ", "))
		return out
	case out.Operation == 0:
		mend := "write one of " + strings.Join(effect.Operations(), ", ")
		if near := nearest(d.Operation, effect.Operations()); near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		p.wrong(number, "operation", fmt.Sprintf("%q is not known", d.Operation), mend)
		return out
	case out.Operation.HasObject():
		if out.Subresource != "" && out.Operation != effect.Create && out.Operation != effect.ServerSideApply {
			p.wrong(number, "subresource", "is not possible with "+d.Operation, "use Create or Apply")
		}
		p.manifest(&out, d.Object)
		return out
	}
	p.required(number, " for "+d.Operation, "kind", d.Kind, "name", d.Name)
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
	}
	out.IgnoreHookError = d.IgnoreHookError && !out.Operation.Deletes() && out.Subresource == "status"
	return out
}

// part returns a part of a document as JSON: parts may also be strings that hold YAML or JSON.
func (p *patchParser) part(number int, field string, raw json.RawMessage) (json.RawMessage, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		p.wrong(number, field, "is required", "")
		return nil, false
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return raw, true
	}
	var node yaml.Node
	if err := yaml.NewDecoder(strings.NewReader(text)).Decode(&node); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		p.wrong(number, field, "is a string that is neither YAML nor JSON: "+strings.TrimPrefix(err.Error(), "yaml: "), "")
		return nil, false
	}
	converted, err := yamlToJSON(&node)
	if err != nil {
		p.wrong(number, field, err.Error(), "")
	}
	return converted, err == nil
}

// serverSet are the metadata that only the server sets. Objects from snapshots have them.
var serverSet = []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"}

func (p *patchParser) manifest(out *effect.Patch, raw json.RawMessage) {
	raw, ok := p.part(out.Number, "object", raw)
	if !ok {
		return
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || len(object) == 0 {
		p.wrong(out.Number, "object", "must be a manifest with apiVersion, kind and metadata", "")
		return
	}
	var metadata map[string]json.RawMessage
	if text, ok := object["metadata"]; ok && json.Unmarshal(text, &metadata) != nil {
		p.wrong(out.Number, "object.metadata", "must be an object", "")
		return
	}
	get := func(from map[string]json.RawMessage, path, key string) (text string) {
		if value, ok := from[key]; ok && json.Unmarshal(value, &text) != nil {
			p.wrong(out.Number, path+key, "must be a string", "write it in quotes")
		}
		return text
	}
	out.APIVersion = get(object, "object.", "apiVersion")
	out.Kind = get(object, "object.", "kind")
	out.Name = get(metadata, "object.metadata.", "name")
	out.Namespace = get(metadata, "object.metadata.", "namespace")
	generated := get(metadata, "object.metadata.", "generateName")
	p.required(out.Number, "", "object.apiVersion", out.APIVersion, "object.kind", out.Kind)
	p.inPath(out.Number, "object.metadata.name", out.Name, "object.metadata.namespace", out.Namespace)
	switch {
	case out.Name == "" && out.Operation == effect.ServerSideApply:
		p.wrong(out.Number, "object.metadata.name", "is required for Apply", "")
	case out.Name == "" && generated == "":
		p.wrong(out.Number, "object.metadata.name", "is required", "or give generateName")
	}
	for _, key := range serverSet {
		delete(metadata, key)
	}
	if metadata != nil {
		object["metadata"], _ = json.Marshal(metadata)
	}
	out.Object, _ = json.Marshal(object)
}

func (p *patchParser) mergePatch(number int, raw json.RawMessage) []byte {
	raw, ok := p.part(number, "mergePatch", raw)
	if !ok {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || len(object) == 0 {
		p.wrong(number, "mergePatch", "must be an object with at least one key", "")
	}
	return raw
}

// jsonOperation is one step of a JSON patch. Value tells an explicit null from a missing key.
type jsonOperation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
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
	if (s.Op == "add" || s.Op == "replace" || s.Op == "test") && s.Value == nil {
		p.wrong(number, at+".value", "is required for "+s.Op, "")
	}
}

func (p *patchParser) filter(number int, text string) string {
	if text == "" {
		p.wrong(number, "jqFilter", "is required for JQPatch", "")
		return ""
	}
	if _, err := p.filters.Compile(text); err != nil {
		p.wrong(number, "jqFilter", fmt.Sprintf("does not compile: %v", err), "")
	}
	return text
}
