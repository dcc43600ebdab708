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
