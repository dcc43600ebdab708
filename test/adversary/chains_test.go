package adversary

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test"
)

// property is what chains have to know of a property.
type property struct {
	Type                        string
	Enum                        []any
	Minimum, Maximum, MaxLength *int
	Pattern                     string
	Required                    []string
	Properties                  map[string]property
	XKubernetesValidations      []any `json:"x-kubernetes-validations"`
}

// chains are the plans of pattern E: five changes of one property in a row, one of which is invalid. They end as a fresh start with the
// last object does.
func chains(t *testing.T, load *workload) (all []*plan) {
	t.Helper()
	if load.CRDs == "" || load.Plain && program != "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(test.Root(), load.CRDs))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema property }
			}
		}
	}
	if err := sigsyaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(load.steps, func(s step) bool {
		return s.Do == "create" && s.Object["kind"] == crd.Spec.Names.Kind && s.Answer == ""
	})
	if first < 0 {
		return nil
	}
	base, of := load.steps[first].Object, property{}
	for _, version := range crd.Spec.Versions {
		if strings.HasSuffix(base["apiVersion"].(string), "/"+version.Name) {
			of = version.Schema.OpenAPIV3Schema.Properties["spec"]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		one := of.Properties[name]
		spec, _ := base["spec"].(map[string]any)
		values := one.values(spec[name])
		if len(one.XKubernetesValidations) > 0 || values == nil || slices.Contains(load.Unchained, name) { // as one that cannot be changed
			continue
		}
		if !slices.Contains(of.Required, name) {
			values = append(values, nil)
		}
		for last, value := range values {
			end := runtime.DeepCopyJSON(base)
			_ = setProperty(end, name, value)
			steps := []step{{Do: "create", Object: base}, {Do: "start"}, {Do: "rest"}}
			for i := 1; i <= 4; i++ {
				steps = append(steps, patchesOf(base, name, values[(last+i)%len(values)])...)
			}
			invalid := patchesOf(base, name, one.invalid())[0]
			invalid.Answer = "is invalid"
			steps = append(append(append(steps, invalid), patchesOf(base, name, value)...), step{Do: "settle"})
			fresh, changed := *load, *load
			fresh.steps = []step{{Do: "create", Object: end}, {Do: "start"}, {Do: "settle"}}
			changed.steps = steps
			p := (&reference{load: &changed}).plan("E", fmt.Sprintf("%s,%d", name, last), name, func() disturbance { return nothing{} })
			p.fresh, p.check = &fresh, func(*world) {}
			all = append(all, p)
		}
	}
	return all
}

// patchesOf set a property. A merge patch would add to an object, so that is removed before.
func patchesOf(base map[string]any, name string, value any) (steps []step) {
	if is, isObject := value.(map[string]any); isObject && is["not"] == nil {
		steps = patchesOf(base, name, nil)
	}
	identity := map[string]any{"apiVersion": base["apiVersion"], "kind": base["kind"], "metadata": base["metadata"]}
	return append(steps, step{Do: "patch", Object: setProperty(identity, name, value)})
}

func setProperty(o map[string]any, name string, value any) map[string]any {
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	spec[name] = value
	o["spec"] = spec
	return o
}

// values are at the bounds of a property, each word of an enum, and lists that are shorter and longer; first what it had.
func (p property) values(is any) (values []any) {
	if is != nil {
		values = append(values, is)
	}
	switch p.Type {
	case "string":
		if p.Enum != nil {
			return append(values, p.Enum...)
		}
		values = append(values, "x")
		if p.MaxLength != nil {
			values = append(values, strings.Repeat("y", *p.MaxLength))
		}
	case "integer":
		for _, bound := range []*int{p.Minimum, p.Maximum} {
			if bound != nil {
				values = append(values, int64(*bound))
			}
		}
		values = append(values, int64(7))
	case "boolean":
		values = append(values, true, false)
	case "array":
		values = append(values, []any{"p"}, []any{"p", "q", "r"}, []any{})
	case "object":
		values = append(values, map[string]any{"P": "1"}, map[string]any{"P": "2", "Q": "3"}, map[string]any{})
	}
	return values
}

func (p property) invalid() any {
	if p.Type == "integer" || p.Type == "object" || p.Type == "array" || p.Type == "boolean" {
		return "text"
	}
	return map[string]any{"not": "a text"}
}
