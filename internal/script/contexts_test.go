package script

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestContexts checks scripts of many styles. Those in first.txtar are run once per context, those in all.txtar are not.
func TestContexts(t *testing.T) {
	for archive, oneByOne := range map[string]bool{"first": true, "all": false} {
		golden.Wants(t, "testdata/"+archive+".txtar", func(t *testing.T, f txtar.File) string {
			r := contextsOf(f.Data, f.Name)
			at, ok := r.OneByOne()
			if ok != oneByOne {
				t.Errorf("run once per context: %t", ok)
			}
			switch {
			case ok:
				return fmt.Sprintln("once per context:", at)
			case !r.FirstOnly():
				return fmt.Sprintf("all contexts: %s (%s)\n", r.Why, r.Doubt)
			}
			return "all contexts: it reads no event data\n"
		})
	}
}

// libraries are sourced by the scripts.
var libraries = map[string]string{
	"lib/log.sh":   `log() { printf '%s\n' "$*" >&2; }`,
	"lib/first.sh": `object_name() { jq -r '.[0].object.metadata.name' "$BINDING_CONTEXT_PATH"; }`,
	"lib/each.sh":  `each_context() { jq -c '.[]' "$BINDING_CONTEXT_PATH"; }`,
}

func contextsOf(text []byte, name string) Reading {
	return Contexts(Source{Path: name, Text: text}, Directory{Path: "/hooks", Name: name, Read: func(name string) ([]byte, bool) {
		text, ok := libraries[name]
		return []byte(text), ok
	}})
}

// BenchmarkContexts is the cost for each hook that is loaded.
func BenchmarkContexts(b *testing.B) {
	archive, err := txtar.ParseFile("testdata/first.txtar")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, f := range archive.Files {
			if !strings.HasSuffix(f.Name, ".want") {
				contextsOf(f.Data, f.Name)
			}
		}
	}
}
