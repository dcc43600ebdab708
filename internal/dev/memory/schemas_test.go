package memory

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"os"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// configMap is a Go type with the name of one in the schemas: one is enough to get all of them.
type configMap struct{ metav1.PartialObjectMetadata }

func (configMap) OpenAPIModelName() string { return "io.k8s.api.core.v1.ConfigMap" }

var unstable = regexp.MustCompile(`\.v[0-9]+(alpha|beta)[0-9]+\.`)

// TestSchemas compares the packed schemas with those of client-go; -update packs them.
func TestSchemas(t *testing.T) {
	kind := runtimeschema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, &configMap{})
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	v, err := applyconfigurations.NewTypeConverter(scheme).ObjectToTyped(o)
	if err != nil {
		t.Fatal(err)
	}
	want := &schema.Schema{Types: slices.DeleteFunc(slices.Clone(v.Schema().Types), func(d schema.TypeDef) bool {
		return unstable.MatchString(d.Name)
	})}
	for _, d := range want.Types {
		if d.Map == nil {
			continue
		}
		for i := range d.Map.Fields { // defaults of maps are empty, and of no use here
			if _, isScalar := d.Map.Fields[i].Default.(string); !isScalar {
				d.Map.Fields[i].Default = nil
			}
		}
	}
	if golden.Update() {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err := gob.NewEncoder(w).Encode(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("schemas.gob.gz", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text := func(s *schema.Schema) string {
		out, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if text(schemas()) != text(want) {
		t.Error("client-go has other schemas: run this test with -update")
	}
}

func BenchmarkSchemas(b *testing.B) {
	for b.Loop() {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			b.Fatal(err)
		}
		if err := gob.NewDecoder(r).Decode(&schema.Schema{}); err != nil {
			b.Fatal(err)
		}
	}
}
