package dev

import (
	"embed"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/kube"
)

//go:embed templates
var templates embed.FS

// bindingTypes are the kinds of bindings that Init knows.
var bindingTypes = []string{"kubernetes", "schedule", "startup", "validating", "mutating", "conversion", "http"}

// language is one that Init knows.
type language struct {
	name string
	// extension is the extension of its files.
	extension string
	// needs is a program that its hooks call.
	needs string
	// worker: its library serves runs.
	worker bool
}

var languages = []language{
	{"sh", ".sh", "jq", false},
	{"bash", ".bash", "jq", true},
	{"python", ".py", "python3", true},
}

// schemaURL is the URL of the JSON Schema of test files.
const schemaURL = "https://raw.githubusercontent.com/shell-operator/shell-operator/main/docs/reference/test-file.schema.json"

// scaffold is the first version of a hook: the hook, its test file and the object of its tests.
type scaffold struct {
	// File is the path of the hook; the test file has its name without the extension.
	File string
	// Type is one of bindingTypes or reconcile, Language the name of one of languages.
	Type, Language string
	// Worker lets workers serve its runs.
	Worker bool
	// Resource is the kind of the objects.
	kube.Resource
}

// scaffoldFile is a file to write.
type scaffoldFile struct {
	path, text string
	mode       fs.FileMode
	// hooks is the directory of the hooks whose values of the chart follow the text, if they do.
	hooks string
}

// Plural is for templates.
func (o scaffold) Plural() string { return o.GroupVersionResource.Resource }

func (o scaffold) stem() string {
	return strings.TrimSuffix(filepath.Base(o.File), filepath.Ext(o.File))
}

// manifests is the directory of what kubectl applies, relative to the directory of the hook: beside it, or in it if it is the working one.
func (o scaffold) manifests() string {
	if filepath.Dir(o.File) == "." {
		return "manifests"
	}
	return "../manifests"
}

// files returns the files of a hook; the hook is the first one.
func (o scaffold) files() ([]scaffoldFile, error) {
	all := template.New("").Funcs(template.FuncMap{"yaml": inYAML})
	for _, name := range []string{"frames", o.Type} {
		text, err := templates.ReadFile("templates/" + name + ".txtar")
		if err != nil {
			return nil, err
		}
		for _, part := range txtar.Parse(text).Files {
			if _, err := all.New(part.Name).Parse(string(part.Data)); err != nil {
				return nil, err
			}
		}
	}
	stem := o.stem()
	dir := filepath.Dir(o.File)
	var files []scaffoldFile
	for _, part := range []struct {
		name, path, before string
		mode               fs.FileMode
	}{
		{o.Language, o.File, "", 0o755},
		{"test", filepath.Join(dir, stem+"_test.yaml"), "# yaml-language-server: $schema=" + schemaURL + "\n", 0o644},
		{"fixture", filepath.Join(dir, "fixtures", stem+".yaml"), "", 0o644},
		{"namespace", filepath.Join(dir, "fixtures", stem+"-namespace.yaml"), "", 0o644},
		{"crd", filepath.Join(dir, o.manifests(), stem+"-crd.yaml"), "", 0o644},
		{"role", filepath.Join(dir, o.manifests(), stem+"-rbac.yaml"), "", 0o644},
	} {
		if all.Lookup(part.name) == nil || part.name == "namespace" && !o.Namespaced {
			if part.name == o.Language {
				return nil, fmt.Errorf("init writes no hook of this type in %s: use --lang sh or python", o.Language)
			}
			continue
		}
		var b strings.Builder
		b.WriteString(part.before)
		if err := all.ExecuteTemplate(&b, part.name, o.values(stem)); err != nil {
			return nil, err
		}
		files = append(files, scaffoldFile{part.path, b.String(), part.mode, ""})
	}
	return files, nil
}

// scaffoldValues are what templates use.
type scaffoldValues struct {
	scaffold
	APIVersion, OldVersion string
	Stem, Name, Manifests  string
	Namespace, Object      string
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// longestName is the limit of Kubernetes for a label of a domain name, and for the name of a label.
const longestName = 63

func (o scaffold) values(stem string) scaffoldValues {
	v := scaffoldValues{
		scaffold: o, APIVersion: o.GroupVersion().String(), Stem: stem, Manifests: o.manifests(), OldVersion: "v1", Namespace: "-",
		Object: strings.ToLower(o.Kind),
	}
	if o.Version == "v1" {
		v.OldVersion = "v1beta1"
	}
	if o.Namespaced {
		v.Namespace = "default"
	}
	v.Name = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(stem), "-"), "-")
	if v.Name = strings.TrimRight(v.Name[:min(len(v.Name), longestName)], "-"); v.Name == "" {
		v.Name = "hook"
	}
	return v
}

var (
	plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*$`)
	// notTexts are plain words that some version of YAML reads as another value.
	notTexts = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
)

// inYAML returns a text as YAML, in quotes if it may be something else without them, also in a flow collection.
func inYAML(words ...string) string {
	text := strings.Join(words, "")
	if plainYAML.MatchString(text) && !slices.Contains(notTexts, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// InitLanguages returns the languages that Init knows.
func InitLanguages() (names []string) {
	for _, l := range languages {
		names = append(names, l.name)
	}
	return names
}

// languageNamed finds a language by its name, or by the extension of a file; without one it is the first one.
func languageNamed(name, file string) (language, error) {
	extension := strings.ToLower(filepath.Ext(file))
	for _, l := range languages {
		switch {
		case name == l.name && (l.name == "python") != (extension == ".py") && slices.Contains([]string{".py", ".sh", ".bash"}, extension):
			return language{}, fmt.Errorf("the extension %s is not one of %s: rename the file, or leave out --lang", extension, name)
		case name == l.name || name == "" && l.extension == extension:
			return l, nil
		}
	}
	if name != "" {
		return language{}, fmt.Errorf("there is no language %q: use one of %s", name, strings.Join(InitLanguages(), ", "))
	}
	if extension != "" && !slices.Contains(notHooks, extension) {
		return language{}, fmt.Errorf("the extension %s is of no language: name one with --lang, of %s", extension,
			strings.Join(InitLanguages(), ", "))
	}
	return languages[0], nil
}
