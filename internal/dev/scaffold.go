package dev

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

// bindingTypes are the kinds of bindings that Init knows, languages those of hooks.
var (
	bindingTypes = []string{"kubernetes", "schedule", "startup", "validating", "mutating", "conversion", "http"}
	languages    = []string{"sh", "bash", "python"}
)

// schemaURL is the URL of the JSON Schema of test files.
const schemaURL = "https://raw.githubusercontent.com/shell-operator/shell-operator/main/docs/reference/test-file.schema.json"

// scaffold is the first version of a hook: the hook, its test file and the object of its tests.
type scaffold struct {
	// File is the path of the hook; its name without an extension is that of the test file.
	File string
	// Type is one of bindingTypes, Language one of languages.
	Type, Language string
	// Group, Version, Kind and Plural name the kind of the objects.
	Group, Version, Kind, Plural string
	Namespaced                   bool
}

// scaffoldFile is a file to write.
type scaffoldFile struct {
	Path, Text string
	Executable bool
}

// files returns the files of a hook; the hook is the first one.
func (o scaffold) files() ([]scaffoldFile, error) {
	text, err := templates.ReadFile("templates/" + o.Type + ".txtar")
	if err != nil {
		return nil, fmt.Errorf("there is no binding of type %q: use one of %s", o.Type, strings.Join(bindingTypes, ", "))
	}
	archive := txtar.Parse(text)
	stem := strings.TrimSuffix(filepath.Base(o.File), filepath.Ext(o.File))
	values := o.values(stem)
	var files []scaffoldFile
	for _, part := range []struct {
		name, path, before string
		executable         bool
	}{
		{o.Language, o.File, "", true},
		{"test", filepath.Join(filepath.Dir(o.File), stem+"_test.yaml"), "# yaml-language-server: $schema=" + schemaURL + "\n", false},
		{"fixture", filepath.Join(filepath.Dir(o.File), "fixtures", stem+".yaml"), "", false},
		{"namespace", filepath.Join(filepath.Dir(o.File), "fixtures", stem+"-namespace.yaml"), "", false},
	} {
		at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == part.name })
		switch {
		case at < 0 && part.executable && slices.Contains(languages, o.Language):
			return nil, fmt.Errorf("there is no %s hook in %s: use --lang sh or bash", o.Type, o.Language)
		case at < 0 && part.executable:
			return nil, fmt.Errorf("there is no language %q: use one of %s", o.Language, strings.Join(languages, ", "))
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
		files = append(files, scaffoldFile{part.path, b.String(), part.executable})
	}
	return files, nil
}

// scaffoldValues are what templates use.
type scaffoldValues struct {
	scaffold
	APIVersion, OldVersion string
	Stem, Name             string
	Namespace, Object      string
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func (o scaffold) values(stem string) scaffoldValues {
	v := scaffoldValues{scaffold: o, APIVersion: o.Version, Stem: stem, OldVersion: "v1", Namespace: "-", Object: strings.ToLower(o.Kind)}
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
