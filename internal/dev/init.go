package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
)

// InitOptions configure Init.
type InitOptions struct {
	// File is the path of the hook, or of the source of a hook in Go; by default it is in the directory hooks, with the name of what it is
	// for.
	File string
	// Binding is the type of its binding, by default kubernetes; Kind the kind of its objects, with "GROUP/VERSION/" before it if it is not
	// built in. Without Language, the extension of File decides.
	Binding, Kind, Language string
	// Worker lets workers serve the runs of the hook. Reconcile writes, in place of a Binding, a hook for a custom resource with a set of
	// objects, a condition and a finalizer, and beside it the CRD and the Role.
	Worker, Reconcile bool
	// Path is the variable PATH.
	Path string
	// Project adds what deploys the hooks, with this tag of the image of the operator: Dockerfile, values of the chart and AGENTS.md.
	Project string
}

// Initialized is what Init has written.
type Initialized struct {
	Paths []string `json:"paths"`
	// Next is the next command, Missing a program that it needs and that is not installed. Kind is the kind of a conversion, if Init chose it.
	Next    string `json:"next,omitempty"`
	Missing string `json:"missing,omitempty"`
	Kind    string `json:"kind,omitempty"`
	// Session are the commands that run a hook for a custom resource: dev in a terminal, the others, which need its KUBECONFIG, in another.
	Session []string `json:"session,omitempty"`
}

// InitBindings returns the types of bindings that Init knows.
func InitBindings() []string { return slices.Clone(bindingTypes) }

// Init writes a hook and its test file. Nothing is overwritten: if one of them exists, none is written.
func Init(o InitOptions) (done Initialized, err error) {
	l, err := languageNamed(o.Language, o.File)
	if err != nil {
		return done, err
	}
	fit := scaffold{File: o.File, Type: cmp.Or(o.Binding, "kubernetes"), Language: l.name, Worker: o.Worker}
	if o.Worker && !l.worker {
		return done, fmt.Errorf("init writes no hook with a worker in %s: use --lang bash or python", l.name)
	}
	if o.Reconcile {
		fit.Type = "reconcile"
	} else if !slices.Contains(bindingTypes, fit.Type) {
		return done, fmt.Errorf("there is no binding of type %q: use one of %s", fit.Type, strings.Join(bindingTypes, ", "))
	}
	if err := nameKind(&fit, o.Kind); err != nil {
		return done, err
	}
	if err := nameFile(&fit, l); err != nil {
		return done, err
	}
	files, err := fit.files()
	own := len(files)
	if err == nil && o.Project != "" {
		files, err = project(files, filepath.Dir(fit.File), l, o.Project)
	}
	if err != nil {
		return done, err
	}
	for i, f := range files {
		if _, err := os.Lstat(f.path); err == nil && i >= own {
			return done, fmt.Errorf("%s exists already: nothing is overwritten, init without --project adds a hook", f.path)
		} else if err == nil {
			return done, fmt.Errorf("%s exists already: nothing is overwritten, choose another name", f.path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return done, fmt.Errorf("nothing is written: %w", err)
		}
	}
	for _, f := range files {
		if err := f.create(); err != nil {
			for _, path := range done.Paths { // with them, a second attempt would be rejected
				_ = os.Remove(path)
			}
			return Initialized{}, fmt.Errorf("nothing is written: %w", err)
		}
		done.Paths = append(done.Paths, f.path)
	}
	done.Next = "shell-operator test " + inShell(filepath.Dir(fit.File))
	if fit.Type == "conversion" && o.Kind == "" {
		done.Kind = fit.GroupVersion().String() + "/" + fit.Kind
	}
	if o.Reconcile {
		done.Session = fit.session()
	}
	if lookUp(l.needs, o.Path) == "" {
		done.Missing = l.needs
	}
	return done, nil
}

// create writes the file. Values of the chart are made by the files that are there.
func (f *scaffoldFile) create() error {
	if f.hooks == "" {
		return Create(f.path, []byte(f.text), f.mode)
	}
	o := Options{HooksDir: f.hooks, Env: os.Environ(), ConfigTimeout: callPatience, HookTimeout: callPatience}
	values, _, err := RBAC(context.Background(), o, RBACOptions{Offline: true, Tests: []string{f.hooks},
		Options: rbac.Options{HooksOnly: true, Namespace: releaseNamespace}})
	if err != nil {
		return err
	}
	const http = "http:\n  enabled: true\n" // the one value that the chart requires beside it
	values = strings.Replace(values, http, http+"  secretName: hooks-tls # name a Secret with tls.crt and tls.key\n", 1)
	return Create(f.path, []byte(f.text+values), f.mode)
}

// releaseNamespace is the namespace for which values of the chart are made.
const releaseNamespace = "my-operator"

// callPatience bounds each call of a hook that Init has written.
const callPatience = time.Minute

// project adds the files that deploy a directory of hooks, beside it.
func project(files []scaffoldFile, dir string, l language, tag string) ([]scaffoldFile, error) {
	if base := filepath.Base(dir); !plainShell.MatchString(base) || strings.HasPrefix(base, "-") || strings.Trim(base, "./") == "" {
		return nil, errors.New("a project has a directory for its hooks, whose name a Dockerfile takes as it is: write for instance " +
			"init hooks/pods.sh --project")
	}
	agents, err := templates.ReadFile("templates/AGENTS.md")
	image := "FROM ghcr.io/shell-operator/shell-operator:" + tag + "\n"
	if l.name == "python" {
		image += "RUN apk add --no-cache python3\n"
	}
	in := func(name, text, hooks string) scaffoldFile {
		return scaffoldFile{filepath.Join(filepath.Dir(dir), name), text, 0o644, hooks}
	}
	return append(files, in("Dockerfile", image+"COPY "+filepath.Base(dir)+" /hooks\n", ""), in("AGENTS.md", string(agents), ""),
		in("values.yaml", "# Values of the chart for a release in the namespace "+
			releaseNamespace+": name the image that you build.\nimage: {repository: registry.example.com/my-operator, tag: v1}\n", dir)), err
}

// InitAgents writes AGENTS.md, which describes for assistants how hooks are written and checked, into the working directory.
func InitAgents() (path string, err error) {
	path = "AGENTS.md"
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s exists already: nothing is overwritten", path)
	}
	text, err := templates.ReadFile("templates/" + path)
	if err == nil {
		err = Create(path, text, 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("nothing is written: %w", err)
	}
	return path, nil
}

func (o scaffold) session() []string {
	dir := filepath.Dir(o.File)
	return []string{"shell-operator dev --testcluster memory " + inShell(dir),
		"kubectl apply -f " + inShell(filepath.Join(dir, o.manifests(), o.stem()+"-crd.yaml")),
		"kubectl apply -f " + inShell(filepath.Join(dir, "fixtures", o.stem()+".yaml"))}
}

var plainShell = regexp.MustCompile(`^[A-Za-z0-9_./,:@%+-]+$`)

// inShell returns a word for a shell, in quotes if it needs them.
func inShell(word string) string {
	if plainShell.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// notHooks are extensions of files that are not run.
var notHooks = []string{".yaml", ".yml", ".json", ".md", ".txt"}

// nameFile completes the path of the hook.
func nameFile(o *scaffold, l language) error {
	if o.File == "" {
		name := o.Type
		if o.Type == "kubernetes" || o.Type == "reconcile" {
			name = o.Plural()
		}
		o.File = filepath.Join("hooks", name+l.extension)
	}
	o.File = filepath.Clean(o.File)
	name := filepath.Base(o.File)
	if strings.HasPrefix(name, ".") || slices.Contains(notHooks, strings.ToLower(filepath.Ext(name))) {
		return fmt.Errorf("%s is no name of a hook: such files are not run, name it for instance pods.sh", o.File)
	}
	return nil
}

// nameKind finds the kind of the objects of a scaffold.
func nameKind(o *scaffold, kind string) error {
	uses := slices.Contains([]string{"kubernetes", "validating", "mutating", "conversion", "reconcile"}, o.Type)
	switch {
	case kind != "" && !uses:
		return fmt.Errorf("--kind is for bindings of the types kubernetes, validating, mutating and conversion, not %s", o.Type)
	case !uses:
		return nil
	case o.Type == "reconcile":
		kind = cmp.Or(kind, "example.com/v1/Widget")
	case o.Type == "conversion":
		kind = cmp.Or(kind, "example.com/v2/Widget")
	default:
		kind = cmp.Or(kind, "Pod")
	}
	apiVersion, name := path.Split(kind)
	found, guessed, err := rbac.Known(strings.TrimSuffix(apiVersion, "/"), name)
	valid := len(validation.IsDNS1123Subdomain(found.Group)) == 0 && len(validation.IsDNS1035Label(found.Version)) == 0 &&
		len(validation.IsDNS1035Label(strings.ToLower(name))) == 0
	if found.Group == "" { // a table has it: v1 is its only version, and "core" or a namespace is none
		valid = found.Version == "v1"
	}
	switch o.Resource = found; {
	case err != nil, !valid:
		return fmt.Errorf("the kind %q is not built into Kubernetes: write GROUP/VERSION/KIND, for instance example.com/v1/Widget", kind)
	case !guessed && o.Type == "conversion":
		return fmt.Errorf("only custom resources are converted, %s is built into Kubernetes", o.Kind)
	case !guessed && o.Type == "reconcile":
		return fmt.Errorf("--reconcile writes a CRD, and %s is built into Kubernetes: use --kind GROUP/VERSION/KIND", o.Kind)
	}
	return nil
}
