package memory

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// packed are the schemas of built-in kinds in their stable versions, which client-go has for server-side apply. TestSchemas compares and
// writes them: linked, those of client-go would add 21 MB to the program and 15 MB to the memory of an operator.
//
//go:embed schemas.gob.gz
var packed []byte

// schemas returns them, unpacked when they are first needed.
var schemas = sync.OnceValue(func() *schema.Schema {
	s := &schema.Schema{}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = gob.NewDecoder(r).Decode(s)
	}
	if err != nil {
		panic(fmt.Sprintf("the schemas of built-in kinds: %v", err)) // they are constant
	}
	return s
})

// builtIn returns the type of a kind that is built into Kubernetes and in the schemas.
func builtIn(k Kind) (typed.ParseableType, bool) {
	if k.Custom {
		return typed.ParseableType{}, false
	}
	group, _, isLong := strings.Cut(k.Group, ".")
	switch {
	case group == "":
		group = "core"
	case isLong && !strings.HasSuffix(k.Group, ".k8s.io"):
		return typed.ParseableType{}, false
	}
	name := "io.k8s.api." + group + "." + k.Version + "." + k.Kind
	if _, ok := schemas().FindNamedType(name); !ok {
		return typed.ParseableType{}, false
	}
	return typed.ParseableType{Schema: schemas(), TypeRef: schema.TypeRef{NamedType: &name}}, true
}

// typeOf returns the type of objects: one of the schemas if all of them conform to it, else a deduced one, whose maps are merged and whose
// lists belong to one manager.
func typeOf(k Kind, objects ...map[string]any) (t typed.ParseableType, deduced bool) {
	t, known := builtIn(k)
	if k.schema != nil {
		t, known = *k.schema, true
	}
	for _, tree := range objects {
		if known {
			_, err := t.FromUnstructured(tree, typed.AllowDuplicates)
			known = err == nil
		}
	}
	if !known {
		return typed.DeducedParseableType, true
	}
	return t, false
}

// mistakes are the fields of an object that its kind does not have, and those with a value of another type. Mistakes of before, an earlier
// version of the object, are none: the schemas may be older than the cluster that it is from.
func mistakes(k Kind, before, tree map[string]any) (all []string) {
	t, known := builtIn(k)
	if !known {
		return nil
	}
	earlier := unknown(t.Schema, t.TypeRef, runtime.DeepCopyJSON(before), "")
	checked := runtime.DeepCopyJSON(tree)
	for _, path := range unknown(t.Schema, t.TypeRef, checked, "") {
		if !slices.Contains(earlier, path) {
			all = append(all, fmt.Sprintf("unknown field %q", path))
		}
	}
	_, err := t.FromUnstructured(checked, typed.AllowDuplicates)
	var invalid typed.ValidationErrors
	if errors.As(err, &invalid) {
		for _, e := range invalid {
			text, _, _ := strings.Cut(e.ErrorMessage, ", got ") // the value may be secret
			all = append(all, fmt.Sprintf("field %q: %s", strings.TrimPrefix(e.Path, "."), text))
		}
	}
	return all
}

// unknown removes the fields that a type does not have from a value, and returns their paths.
func unknown(s *schema.Schema, of schema.TypeRef, value any, path string) (paths []string) {
	atom, _ := s.Resolve(of)
	switch value := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			field, ok := atom.Map.FindField(name)
			switch {
			case ok:
				paths = append(paths, unknown(s, field.Type, value[name], at)...)
			case atom.Map.ElementType != (schema.TypeRef{}):
				paths = append(paths, unknown(s, atom.Map.ElementType, value[name], at)...)
			default:
				paths = append(paths, at)
				delete(value, name)
			}
		}
	case []any:
		if atom.List == nil {
			return nil
		}
		for i, item := range value {
			paths = append(paths, unknown(s, atom.List.ElementType, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return paths
}

// customType is the type of a kind by the schema of its CRD: an API server merges lists by their keys. Metadata is that of all kinds.
func customType(openAPI map[string]any) *typed.ParseableType {
	object := typeBy(openAPI)
	if object.Inlined.Map == nil {
		object = schema.TypeRef{Inlined: schema.Atom{Map: &schema.Map{ElementType: object}}}
	}
	metadata, scalar := "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", schema.Scalar("untyped")
	object.Inlined.Map.Fields = slices.DeleteFunc(object.Inlined.Map.Fields, func(f schema.StructField) bool {
		return slices.Contains([]string{"metadata", "apiVersion", "kind"}, f.Name)
	})
	text := schema.TypeRef{Inlined: schema.Atom{Scalar: &scalar}}
	object.Inlined.Map.Fields = append(object.Inlined.Map.Fields, schema.StructField{Name: "metadata",
		Type: schema.TypeRef{NamedType: &metadata}},
		schema.StructField{Name: "apiVersion", Type: text}, schema.StructField{Name: "kind", Type: text})
	return &typed.ParseableType{Schema: schemas(), TypeRef: object}
}

// deduced is the type of values that are not described.
var deduced = "__untyped_deduced_"

// typeBy translates a schema of a CRD.
func typeBy(openAPI map[string]any) schema.TypeRef {
	name, _ := openAPI["type"].(string)
	properties, _ := openAPI["properties"].(map[string]any)
	further, describesFurther := openAPI["additionalProperties"].(map[string]any)
	switch {
	case openAPI["x-kubernetes-int-or-string"] == true, slices.Contains([]string{"string", "boolean", "number", "integer"}, name):
		scalar := schema.Scalar("untyped")
		return schema.TypeRef{Inlined: schema.Atom{Scalar: &scalar}}
	case name == "array":
		items, _ := openAPI["items"].(map[string]any)
		list := &schema.List{ElementType: typeBy(items), ElementRelationship: schema.Atomic}
		if kind := openAPI["x-kubernetes-list-type"]; kind == "map" || kind == "set" {
			list.ElementRelationship = schema.Associative
		}
		keys, _ := openAPI["x-kubernetes-list-map-keys"].([]any)
		for _, k := range keys {
			list.Keys = append(list.Keys, fmt.Sprint(k))
		}
		return schema.TypeRef{Inlined: schema.Atom{List: list}}
	case name != "object" || len(properties) == 0 && !describesFurther:
		return schema.TypeRef{NamedType: &deduced}
	}
	object := &schema.Map{ElementRelationship: schema.Separable}
	if openAPI["x-kubernetes-map-type"] == "atomic" {
		object.ElementRelationship = schema.Atomic
	}
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		of, _ := properties[field].(map[string]any)
		object.Fields = append(object.Fields, schema.StructField{Name: field, Type: typeBy(of)})
	}
	switch {
	case describesFurther:
		object.ElementType = typeBy(further)
	case openAPI["x-kubernetes-preserve-unknown-fields"] == true:
		object.ElementType = schema.TypeRef{NamedType: &deduced}
	}
	return schema.TypeRef{Inlined: schema.Atom{Map: object}}
}

// patchMeta is how a strategic merge patch merges fields: as an apply does, by the first of the keys.
type patchMeta struct {
	schema *schema.Schema
	of     schema.TypeRef
}

var _ strategicpatch.LookupPatchMeta = patchMeta{}

// Name implements strategicpatch.LookupPatchMeta.
func (m patchMeta) Name() string { return "" }

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (m patchMeta) LookupPatchMetadataForStruct(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	return m.field(name), strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (m patchMeta) LookupPatchMetadataForSlice(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	list, meta := m.field(name), strategicpatch.PatchMeta{}
	atom, known := list.resolve()
	if !known || atom.List == nil {
		return list, meta, nil
	}
	if atom.List.ElementRelationship == schema.Associative {
		meta.SetPatchStrategies([]string{"merge"})
		if len(atom.List.Keys) > 0 {
			meta.SetPatchMergeKey(atom.List.Keys[0])
		}
	}
	return patchMeta{m.schema, atom.List.ElementType}, meta, nil
}

func (m patchMeta) resolve() (schema.Atom, bool) {
	if m.schema == nil {
		return schema.Atom{}, false
	}
	return m.schema.Resolve(m.of)
}

// field is the type of a field of a struct, or of a value of a map.
func (m patchMeta) field(name string) patchMeta {
	atom, known := m.resolve()
	if !known || atom.Map == nil {
		return patchMeta{}
	}
	if f, ok := atom.Map.FindField(name); ok {
		return patchMeta{m.schema, f.Type}
	}
	return patchMeta{m.schema, atom.Map.ElementType}
}

// removeUnknown removes the fields that the kind does not have, and reports whether nothing else is a mistake.
func (q *request) removeUnknown(tree map[string]any) bool {
	t, known := builtIn(q.kind)
	if !known {
		return true
	}
	unknown(t.Schema, t.TypeRef, tree, "")
	_, err := t.FromUnstructured(tree, typed.AllowDuplicates)
	return err == nil
}
