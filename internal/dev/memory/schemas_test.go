package memory

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

var unstable = regexp.MustCompile(`\.v[0-9]+(alpha|beta)[0-9]+\.`)

// TestSchemas compares the packed schemas with the schemas in client-go; -update packs them.
func TestSchemas(t *testing.T) {
	parser, err := typed.NewParser(schemasOfClientGo(t))
	if err != nil {
		t.Fatal(err)
	}
	want := &schema.Schema{Types: slices.DeleteFunc(parser.Schema.Types, func(d schema.TypeDef) bool {
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

// schemasOfClientGo reads them in its source: a Go program has them only with the apply configurations of all kinds.
func schemasOfClientGo(t *testing.T) typed.YAMLObject {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "applyconfigurations", "internal", "internal.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(source), "typed.YAMLObject(`")
	text, _, ended := strings.Cut(text, "`)")
	if !found || !ended {
		t.Fatal("client-go has its schemas in another place")
	}
	return typed.YAMLObject(text)
}
