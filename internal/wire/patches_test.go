package wire

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestParsePatches compares each NAME in testdata/patches with NAME.want. -update rewrites the latter.
func TestParsePatches(t *testing.T) {
	golden.Wants(t, "testdata/patches/*.txtar", func(_ *testing.T, f txtar.File) string {
		return describePatches(ParsePatches(f.Data, jq.NewCompiler(jq.Options{})))
	})
}

func describePatches(patches []effect.Patch, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	if len(patches) == 0 {
		return "nothing\n"
	}
	var b strings.Builder
	for _, p := range patches {
		fmt.Fprintf(&b, "%d %s %q %q %q %q", p.Number, p.Operation, p.APIVersion, p.Kind, p.Namespace, p.Name)
		if p.Subresource != "" {
			b.WriteString(" subresource " + p.Subresource)
		}
		for _, flag := range []struct {
			set  bool
			name string
		}{{p.Force, "force"}, {p.IgnoreMissingObject, "ignoreMissingObject"}, {p.IgnoreHookError, "ignoreHookError"}} {
			if flag.set {
				b.WriteString(" " + flag.name)
			}
		}
		fmt.Fprintf(&b, " %s%s%s", p.Object, p.Body, p.Filter)
		if p.Condition != nil {
			fmt.Fprintf(&b, "%+v", *p.Condition)
		}
		if p.Event != nil {
			fmt.Fprintf(&b, "%+v", *p.Event)
		}
		b.WriteString("\n")
		if p.Set != nil {
			describeSet(&b, p.Set)
		}
	}
	return b.String()
}

func describeSet(b *strings.Builder, s *effect.ObjectSet) {
	if s.Owner != nil {
		fmt.Fprintf(b, "  owner %q\n", *s.Owner)
	}
	fmt.Fprintf(b, "  force=%t restore=%t pruneKinds=%q\n", s.Force, s.Restore, s.PruneKinds)
	for _, m := range s.Objects {
		fmt.Fprintf(b, "  %q %q %q %q %s\n", m.APIVersion, m.Kind, m.Namespace, m.Name, m.Object)
	}
}

// Whatever a hook writes: an answer, never a panic, and valid patches have what their operation needs.
func FuzzParsePatches(f *testing.F) {
	files, _ := filepath.Glob("testdata/patches/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			f.Add(a.Data)
		}
	}
	filters := jq.NewCompiler(jq.Options{})
	f.Fuzz(func(t *testing.T, text []byte) {
		patches, _ := ParsePatches(text, filters)
		for i, p := range patches {
			for _, part := range []string{p.Name, p.Namespace, p.Subresource} {
				if strings.ContainsAny(part, "/%") || part == "." || part == ".." {
					t.Errorf("%q leads elsewhere", part)
				}
			}
			if p.Set != nil {
				if p.Operation != effect.Sync || p.Name == "" || p.Set.Name != p.Name {
					t.Errorf("patch %+v", p)
				}
				continue // an earlier one of the set may be missing
			}
			if p.Number < i+1 || p.Kind == "" || p.Operation.HasObject() != (p.Object != nil) || !p.Operation.HasObject() && p.Name == "" {
				t.Errorf("patch %+v", p)
			}
		}
	})
}
