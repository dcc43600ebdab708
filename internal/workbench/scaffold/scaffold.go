// Package scaffold has the first files of a hook: the hook, its test file and the object of its tests. Everything is a function of its
// arguments; the caller writes the files.
package scaffold

import (
	"embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"
)

//go:embed templates
var templates embed.FS

// Types are the kinds of bindings, Languages those of hooks.
var (
	Types     = []string{"kubernetes", "schedule", "startup", "validating", "mutating", "conversion", "http"}
	Languages = []string{"sh", "bash", "python"}
)

// Schema is the URL of the JSON Schema of test files.
const Schema = "https://raw.githubusercontent.com/shell-operator/shell-operator/main/docs/reference/test-file.schema.json"

// Options of a hook.
type Options struct {
	// File is the path of the hook; its name without an extension is that of the test file.
	File string
	// Type is one of Types, Language one of Languages.
	Type, Language string
	// Group, Version, Kind and Plural name the kind of the objects.
	Group, Version, Kind, Plural string
	Namespaced                   bool
}

// File is a file to write.
type File struct {
	Path, Text string
	Executable bool
}

// Files returns the files of a hook; the hook is the first one.
func Files(o Options) ([]File, error) {
	text, err := templates.ReadFile("templates/" + o.Type + ".txtar")
	if err != nil {
		return nil, fmt.Errorf("there is no binding of type %q: use one of %s", o.Type, strings.Join(Types, ", "))
	}
	archive := txtar.Parse(text)
	stem := strings.TrimSuffix(filepath.Base(o.File), filepath.Ext(o.File))
	values := o.values(stem)
	var files []File
	for _, part := range []struct {
		name, path, before string
		executable         bool
	}{
		{o.Language, o.File, "", true},
		{"test", filepath.Join(filepath.Dir(o.File), stem+"_test.yaml"), "# yaml-language-server: $schema=" + Schema + "\n", false},
		{"fixture", filepath.Join(filepath.Dir(o.File), "fixtures", stem+".yaml"), "", false},
		{"namespace", filepath.Join(filepath.Dir(o.File), "fixtures", stem+"-namespace.yaml"), "", false},
	} {
		at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == part.name })
		switch {
		case at < 0 && part.executable && slices.Contains(Languages, o.Language):
			return nil, fmt.Errorf("there is no %s hook in %s: use --lang sh or bash", o.Type, o.Language)
		case at < 0 && part.executable:
			return nil, fmt.Errorf("there is no language %q: use one of %s", o.Language, strings.Join(Languages, ", "))
		case at < 0, part.name == "namespace" && !o.Namespaced:
			continue
		}
		t, err := template.New(part.name).Parse(string(archive.Files[at].Data))
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		b.WriteString(part.before)
		if err := t.Execute(&b, values); err != nil {
			return nil, err
		}
		files = append(files, File{part.path, b.String(), part.executable})
	}
	return files, nil
}

// values are what templates use.
type values struct {
	Options
	APIVersion, OldVersion string
	Stem, Name             string
	Namespace, Object      string
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func (o Options) values(stem string) values {
	v := values{Options: o, APIVersion: o.Version, Stem: stem, OldVersion: "v1", Namespace: "-", Object: strings.ToLower(o.Kind)}
	if o.Group != "" {
		v.APIVersion = o.Group + "/" + o.Version
	}
	if o.Version == "v1" {
		v.OldVersion = "v1beta1"
	}
	if o.Namespaced {
		v.Namespace = "default"
	}
	if v.Name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(stem), "-"), "-"); v.Name == "" {
		v.Name = "hook"
	}
	return v
}
