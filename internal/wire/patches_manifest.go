package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// serverSet are the metadata that only the API server sets. Objects from snapshots have them.
var serverSet = []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"}

// manifest reads a manifest at a path of the document.
func (p *patchParser) manifest(out *effect.Patch, at string, raw json.RawMessage) {
	raw, ok := p.part(out.Number, at, raw)
	if !ok {
		return
	}
	raw, err := sendable(raw)
	switch {
	case errors.Is(err, errMetadata):
		p.wrong(out.Number, at+".metadata", "must be an object", "")
		return
	case err != nil:
		p.wrong(out.Number, at, "must be a manifest with apiVersion, kind and metadata", "")
		return
	}
	get := func(from []byte, path, key string) (text string) {
		if value := member(from, key); value != nil && readText(value, &text) != nil {
			p.wrong(out.Number, path+key, "must be a string", "write it in quotes")
		}
		return text
	}
	metadata := member(raw, "metadata")
	out.APIVersion = get(raw, at+".", "apiVersion")
	out.Kind = get(raw, at+".", "kind")
	out.Name = get(metadata, at+".metadata.", "name")
	out.Namespace = get(metadata, at+".metadata.", "namespace")
	generated := get(metadata, at+".metadata.", "generateName")
	p.required(out.Number, "", at+".apiVersion", out.APIVersion, at+".kind", out.Kind)
	p.inPath(out.Number, at+".metadata.name", out.Name, at+".metadata.namespace", out.Namespace)
	switch {
	case out.Operation == effect.Sync && generated != "":
		p.wrong(out.Number, at+".metadata.generateName", "is not possible in a set", "write a name that is the same in each run")
	case out.Name == "" && (out.Operation == effect.ServerSideApply || out.Operation == effect.Sync):
		p.wrong(out.Number, at+".metadata.name", "is required for "+out.Operation.String(), "")
	case out.Name == "" && generated == "":
		p.wrong(out.Number, at+".metadata.name", "is required", "or give generateName")
	}
	out.Object = raw
}

var errMetadata = errors.New("metadata is no object")

// sendable returns a manifest without the metadata that only the API server sets, and without duplicate keys, for which the
// operator and the API server might use different values. Most manifests need no change and are not copied.
func sendable(manifest []byte) ([]byte, error) {
	if w := jq.Walk(manifest); !w.Enter('{') || w.Kind() == '}' {
		return nil, errors.New("no object, or an empty one")
	}
	metadata := member(manifest, "metadata")
	if metadata != nil && metadata[0] != '{' && string(metadata) != "null" {
		return nil, errMetadata
	}
	if plain(manifest, nil) && (metadata == nil || plain(metadata, serverSet)) {
		return manifest, nil
	}
	var object, inner map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &object); err != nil {
		return nil, err
	}
	if text, ok := object["metadata"]; ok && json.Unmarshal(text, &inner) != nil {
		return nil, errMetadata
	}
	for _, key := range serverSet {
		delete(inner, key)
	}
	if inner != nil {
		object["metadata"], _ = json.Marshal(inner)
	}
	return json.Marshal(object)
}

// member returns the value of an object's member, or nil. The name must be written without escapes and only once.
func member(object []byte, name string) []byte {
	w := jq.Walk(object)
	for found := w.Enter('{'); found; {
		key := w.Member()
		if key == nil {
			break
		}
		if string(key[1:len(key)-1]) == name {
			return w.Value()
		}
		w.Skip()
	}
	return nil
}

// plain reports whether an object has none of the given members, no duplicate names and no escaped names.
func plain(object []byte, none []string) bool {
	var names [32][]byte // an object with more takes the slow path
	seen := names[:0]
	w := jq.Walk(object)
	if !w.Enter('{') {
		return true
	}
	for key := w.Member(); key != nil; key = w.Member() {
		again := slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(key, other) })
		if again || len(seen) == cap(seen) || bytes.IndexByte(key, '\\') >= 0 || slices.Contains(none, string(key[1:len(key)-1])) {
			return false
		}
		seen = append(seen, key)
		w.Skip()
	}
	return true
}
