package deploy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestComparedValues: the chart has the values that the page beside other charts names for it.
func TestComparedValues(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	page := read(t, filepath.Join(testenv.Root(), "docs", "explanation", "compared-charts.md"))
	named := 0
	for _, row := range regexp.MustCompile(`(?m)^\| [^|]* \| ([^|]*) \| `).FindAllStringSubmatch(page, -1) {
		for _, value := range regexp.MustCompile("`([^` ]+)`").FindAllStringSubmatch(row[1], -1) {
			named++
			if _, found, err := unstructured.NestedFieldNoCopy(values, strings.Split(value[1], ".")...); !found || err != nil {
				t.Errorf("the chart has no value %s: %v", value[1], err)
			}
		}
	}
	if named < 20 {
		t.Errorf("the page names only %d values", named)
	}
}
