package wire

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestParseConfig runs the archives in testdata/config. For each file in an archive, which is what a hook
// printed, there is a file NAME.want: the hook that comes of it (fields with zero values are left out) and the
// warnings, or what is wrong with it.
func TestParseConfig(t *testing.T) {
	golden.Wants(t, configFiles, func(_ *testing.T, f txtar.File) string { return parsed(f.Data) })
}

const configFiles = "testdata/config/*.txtar"

func testOptions() ConfigOptions {
	return ConfigOptions{JQ: jq.NewCompiler(jq.Options{}), CheckCrontab: checkCrontab}
}

// checkCrontab is a fake of the one of package schedule.
func checkCrontab(text string) error {
	if n := len(strings.Fields(text)); n != 5 && n != 6 {
		return fmt.Errorf("%d fields", n)
	}
	return nil
}

// parsed prints the result of a configuration in lines.
func parsed(output []byte) string {
	h, warnings, err := ParseConfig("hook.sh", "/hooks/hook.sh", output, testOptions())
	var b strings.Builder
	if broken := (*ConfigError)(nil); errors.As(err, &broken) {
		for _, v := range broken.Violations {
			fmt.Fprintf(&b, "invalid: %s\n", v)
		}
	}
	h.Name, h.Path = "", ""
	for field, value := range reflect.ValueOf(h).Fields() {
		if value.Kind() == reflect.Slice {
			for i := range value.Len() {
				fmt.Fprintf(&b, "%s[%d] %s\n", field.Name, i, show(value.Index(i)))
			}
		} else if !value.IsZero() {
			fmt.Fprintf(&b, "%s %s\n", field.Name, show(value))
		}
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// show writes a value in one line: structs as fields that are not zero, true fields as their names.
func show(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case hook.ContextForm:
		return []string{"full", "names"}[v]
	case hook.Initial:
		return []string{"list", "none", "events"}[v]
	case time.Duration:
		return v.String()
	}
	var parts []string
	switch v.Kind() {
	case reflect.Pointer:
		return show(v.Elem())
	case reflect.String:
		return fmt.Sprintf("%q", v)
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, show(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		for field, value := range v.Fields() {
			switch {
			case field.Anonymous:
				parts = append(parts, strings.Trim(show(value), "{}"))
			case value.Kind() == reflect.Bool && value.Bool():
				parts = append(parts, field.Name)
			case !value.IsZero():
				parts = append(parts, field.Name+"="+show(value))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return fmt.Sprint(v)
}

// FuzzParseConfig checks what callers rely on: an error is a *ConfigError with a message, and a hook refers only to its
// own bindings.
func FuzzParseConfig(f *testing.F) {
	for _, path := range golden.Files(f, configFiles) {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if !strings.HasSuffix(file.Name, ".want") {
				f.Add(file.Data)
			}
		}
	}
	opts := testOptions()
	f.Fuzz(func(t *testing.T, output []byte) {
		h, _, err := ParseConfig("hook.sh", "/hooks/hook.sh", output, opts)
		if err != nil {
			var broken *ConfigError
			if !errors.As(err, &broken) || len(broken.Violations) == 0 || slices.ContainsFunc(broken.Violations, func(v Violation) bool {
				return v.Problem == ""
			}) {
				t.Errorf("error %#v", err)
			}
			return
		}
		for _, b := range h.Bindings() {
			names := map[string]bool{}
			for _, i := range b.Includes {
				if i < 0 || i >= len(h.Kubernetes) {
					t.Fatalf("binding %q includes number %d of %d", b.Name, i, len(h.Kubernetes))
				}
				if name := h.Kubernetes[i].Name; names[name] {
					t.Errorf("binding %q includes two with the name %q", b.Name, name)
				}
				names[h.Kubernetes[i].Name] = true
			}
			if b.Name == "" {
				t.Error("a binding has no name")
			}
		}
		for _, k := range h.Kubernetes {
			if k.Kind == "" || k.Queue == "" || !slices.IsSorted(k.Names) || !slices.IsSorted(k.Namespaces.Names) {
				t.Errorf("kubernetes binding %+v", k)
			}
		}
	})
}
