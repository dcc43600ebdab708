package wire

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// A long text and many aliases of it would be hundreds of MiB: it is rejected, without taking memory. A usual number of
// aliases is accepted.
func TestAliases(t *testing.T) {
	bomb := func(length, times int) string {
		return `text: &a "` + strings.Repeat("x", length) + "\"\nmore: &b [" + strings.Repeat("*a, ", times) + "1]\nmost: [" +
			strings.Repeat("*b, ", times) + "1]\n"
	}
	indented := func(text string) string {
		return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	head := "operation: Create\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n"
	parse := func(text string) error {
		_, err := ParsePatches([]byte(text), jq.NewCompiler(jq.Options{}))
		return err
	}
	const problem = "has aliases that expand to more than"
	for _, test := range []struct {
		name string
		err  func() error
		want string
	}{
		{"an object", func() error { return parse(head + indented(bomb(1<<20, 300))) }, "document 1, line 3: object " + problem},
		{"small ones of each other", func() error { return parse(head + indented(bomb(100, 1000))) }, problem},
		{"a text with YAML", func() error {
			return parse(fmt.Sprintf(`{"operation": "Create", "object": %q}`, bomb(1<<20, 300)))
		}, "document 1: object " + problem},
		{"a configuration", func() error {
			_, _, err := ParseConfig("hook.sh", "/hooks/hook.sh", []byte("configVersion: v1\nonStartup: 1\n"+bomb(1<<20, 300)), testOptions())
			return err
		}, "the output " + problem},
		{"a usual number of aliases", func() error {
			return parse(head + "  data: {a: &text some, b: *text, c: *text}\n")
		}, ""},
		{"labels", func() error {
			return parse("operation: Create\nobject:\n  apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    labels: &l {app: x}\n  " +
				"spec: {selector: *l}\n")
		}, ""},
		{"merged", func() error {
			return parse(head + "  data: &d {a: b}\n  more: {<<: *d}\n")
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := test.err()
			runtime.ReadMemStats(&after)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (err != nil) != (test.want != "") || !strings.Contains(got, test.want) || len(got) > 6000 {
				t.Errorf("got %.500s, want %s", got, test.want)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 100 {
				t.Errorf("%d MiB were allocated", made)
			}
		})
	}
}
