package memory

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// packed are the schemas of built-in kinds in their stable versions, which client-go has for server-side apply. TestSchemas compares and
// writes them: the schemas in client-go would, if they were linked, add 21 MB to the program and 15 MB to the memory of an operator.
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
func typeOf(k Kind, objects ...map[string]any) typed.ParseableType {
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
		return typed.DeducedParseableType
	}
	return t
}

// mistakes are the fields of an object that its kind does not have, and those with a value of another type. Mistakes of before, an earlier
// version of the object, are none: the schemas may be older than the cluster that it is from. known is the object without unknown fields,
// and nil if values are mistyped. A server that warns of mistakes accepts them.
func (s *Server) mistakes(k Kind, at key, before, tree map[string]any) (all []string, known map[string]any) {
	t, isBuiltIn := builtIn(k)
	if !isBuiltIn {
		return nil, tree
	}
	earlier := unknown(t.Schema, t.TypeRef, runtime.DeepCopyJSON(before), "")
	known = runtime.DeepCopyJSON(tree)
	for _, path := range unknown(t.Schema, t.TypeRef, known, "") {
		if !slices.Contains(earlier, path) {
			all = append(all, fmt.Sprintf("unknown field %q", path))
		}
	}
	_, err := t.FromUnstructured(known, typed.AllowDuplicates)
	var invalid typed.ValidationErrors
	if errors.As(err, &invalid) {
		known = nil
		for _, e := range invalid {
			text, _, _ := strings.Cut(e.ErrorMessage, ", got ") // the value may be secret
			all = append(all, fmt.Sprintf("field %q: %s", strings.TrimPrefix(e.Path, "."), text))
		}
	}
	if len(all) > 0 && s.warn != nil {
		s.warn(ref(k, at) + ": " + strings.Join(all, ", "))
		return nil, tree
	}
	return all, known
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

// customType is the type of a kind by the schema of its CRD: an API server merges lists by their keys. Metadata has the type that all kinds
// have. It is nil without a schema, or with one that an API server rejects.
func customType(openAPI []byte) *typed.ParseableType {
	const kindName, prefix = "kind", "io.k8s.apimachinery.pkg.apis.meta.v1."
	var s spec.Schema
	if json.Unmarshal(openAPI, &s) != nil || len(s.Type) == 0 {
		return nil
	}
	open := len(s.Properties) == 0
	if open {
		s.Properties = map[string]spec.Schema{}
	}
	s.Properties["apiVersion"], s.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	s.Properties["metadata"] = *spec.RefProperty("#/" + prefix + "ObjectMeta")
	all, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{kindName: &s}, open)
	if err != nil {
		return nil
	}
	for _, t := range schemas().Types {
		if strings.HasPrefix(t.Name, prefix) {
			all.Types = append(all.Types, t)
		}
	}
	name := kindName
	return &typed.ParseableType{Schema: all, TypeRef: schema.TypeRef{NamedType: &name}}
}

// patchMeta is how a strategic merge patch merges fields: as an apply does, by the first of the keys.
type patchMeta typed.ParseableType

var _ strategicpatch.LookupPatchMeta = patchMeta{}

// Name implements strategicpatch.LookupPatchMeta.
func (m patchMeta) Name() string { return "" }

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (m patchMeta) LookupPatchMetadataForStruct(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	of, _ := m.field(name)
	return of, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (m patchMeta) LookupPatchMetadataForSlice(name string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	meta := strategicpatch.PatchMeta{}
	of, _ := m.field(name)
	list := of.atom().List
	if list == nil {
		return of, meta, nil
	}
	if list.ElementRelationship == schema.Associative {
		meta.SetPatchStrategies([]string{"merge"})
		if len(list.Keys) > 0 {
			meta.SetPatchMergeKey(list.Keys[0])
		}
	}
	of.TypeRef = list.ElementType
	return of, meta, nil
}

func (m patchMeta) atom() (atom schema.Atom) {
	if m.Schema != nil {
		atom, _ = m.Schema.Resolve(m.TypeRef)
	}
	return atom
}

// field is the type of a field of a struct, or of a value of a map, which is not described.
func (m patchMeta) field(name string) (of patchMeta, described bool) {
	fields := m.atom().Map
	if fields == nil {
		return patchMeta{}, false
	}
	f, described := fields.FindField(name)
	if m.TypeRef = fields.ElementType; described {
		m.TypeRef = f.Type
	}
	return m, described
}

// emptied rejects the maps that an apply has emptied: the library leaves null there, which the schema of a CRD does not allow
// (kubernetes/kubernetes#135841).
func (m patchMeta) emptied(config, merged map[string]any, at *field.Path) (errs field.ErrorList) {
	for name, value := range config {
		wanted, isMap := value.(map[string]any)
		of, described := m.field(name)
		is, _ := merged[name].(map[string]any)
		switch {
		case !isMap || !described || at == nil && name == "metadata":
		case is == nil:
			errs = append(errs, field.TypeInvalid(at.Child(name), nil, "must be of type object"))
		default:
			errs = append(errs, of.emptied(wanted, is, at.Child(name))...)
		}
	}
	return errs
}
