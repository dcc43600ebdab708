package dev

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
)

// InitOptions are those of Init.
type InitOptions struct {
	// File is the path of the hook.
	File string
	// Binding is its type; Kind that of its objects, with "GROUP/VERSION/" before it if it is not built in. Without Language, it is that of
	// the extension of File.
	Binding, Kind, Language string
	NoTest                  bool
}

// Init writes a hook and its test file, and returns their paths. Nothing is overwritten: if one of them exists, none is written.
func Init(o InitOptions) (paths []string, err error) {
	if o.Language == "" {
		o.Language = languageOf(o.File)
	}
	fit := scaffold{File: o.File, Type: o.Binding, Language: o.Language}
	if !slices.Contains(bindingTypes, o.Binding) {
		return nil, fmt.Errorf("there is no binding of type %q: use one of %s", o.Binding, strings.Join(bindingTypes, ", "))
	}
	if strings.HasSuffix(o.File, testfile.Suffix) || isManifest(o.File) {
		return nil, fmt.Errorf("%s is no name of a hook: files with this extension are not run, name it for instance pods.sh", o.File)
	}
	if err := nameKind(&fit, o.Kind); err != nil {
		return nil, err
	}
	files, err := fit.files()
	if err != nil {
		return nil, err
	}
	if o.NoTest {
		files = files[:1]
	}
	for _, f := range files {
		if _, err := os.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s exists already: nothing is overwritten, choose another name", f.Path)
		}
	}
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.Executable {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
			return paths, err
		}
		file, err := os.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return paths, err
		}
		_, err = file.WriteString(f.Text)
		if err := errors.Join(err, file.Close()); err != nil {
			return paths, err
		}
		paths = append(paths, f.Path)
	}
	return paths, nil
}

// languageOf is that of the extension of a file, by default sh.
func languageOf(file string) string {
	switch filepath.Ext(file) {
	case ".py":
		return "python"
	case ".bash":
		return "bash"
	}
	return "sh"
}

// nameKind finds the kind of the objects of a scaffold.
func nameKind(o *scaffold, kind string) error {
	uses := slices.Contains([]string{"kubernetes", "validating", "mutating", "conversion"}, o.Type)
	switch {
	case kind != "" && !uses:
		return fmt.Errorf("--kind is for bindings of the types kubernetes, validating, mutating and conversion, not %s", o.Type)
	case !uses:
		return nil
	case o.Type == "conversion":
		kind = cmp.Or(kind, "example.com/v2/Widget")
	default:
		kind = cmp.Or(kind, "Pod")
	}
	apiVersion, name := "", kind
	if at := strings.LastIndexByte(kind, '/'); at >= 0 {
		apiVersion, name = kind[:at], kind[at+1:]
	}
	for _, b := range builtInKinds() {
		gv := b.GroupVersion().String()
		if (strings.EqualFold(name, b.Kind) || slices.Contains(b.ShortNames, name) || name == b.GroupVersionResource.Resource) &&
			(apiVersion == "" || apiVersion == gv) {
			o.Group, o.Version, o.Kind, o.Plural, o.Namespaced = b.Group, b.Version, b.Kind, b.GroupVersionResource.Resource, b.Namespaced
			break
		}
	}
	if o.Kind == "" {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil || gv.Group == "" || name == "" {
			return fmt.Errorf("the kind %q is not built into Kubernetes: write GROUP/VERSION/KIND, for instance example.com/v1/Widget", kind)
		}
		known, err := rbac.Known(apiVersion, name)
		if err != nil {
			return err
		}
		o.Group, o.Version, o.Kind, o.Plural, o.Namespaced = gv.Group, gv.Version, name, known.Resource, true
	} else if o.Type == "conversion" {
		return fmt.Errorf("only custom resources are converted, %s is built into Kubernetes", o.Kind)
	}
	return nil
}
