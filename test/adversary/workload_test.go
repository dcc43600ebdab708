package adversary

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test"
)

// workload is a file of testdata: hooks and a script of changes that ends in a quiet cluster.
type workload struct {
	name string
	// Hooks is the directory of the hooks, from the top of the repository.
	Hooks string
	// CRDs is a file with the CRDs of the workload.
	CRDs string
	// Replicas is the number of operators.
	Replicas int
	Args     []string
	Env      []string
	// Namespaces is the number of namespaces: NS, NS-2 and so on.
	Namespaces int
	// Words of hooks, manifests and the script are replaced, for hooks that concern more than their namespace. $NS is the namespace of a plan.
	Words map[string]string
	// Unchained are the properties that pattern E leaves alone: they need more than their schema has.
	Unchained []string
	// Numbers is a workload whose runs create objects with names that only one that sees the earlier ones knows.
	Numbers bool
	// Mysql and Shop start what hooks call.
	Mysql, Shop bool
	// Plain is a workload without finalizers, sets and other additions of ours: another program can run it.
	Plain bool
	steps []step
}

// step is a line of the script.
type step struct {
	// Do is create, patch, delete or request; start starts the operators, settle waits for the state of the reference, rest for no task;
	// terminate ends the operator that serves a shard, which another one takes over.
	Do string
	// Object is a manifest, for a patch a merge patch with its identity, for a delete the identity.
	Object map[string]any
	// Status makes a patch one of the status.
	Status bool
	// Cancels is set where this change cancels the change of the step before.
	Cancels bool
	// Answer makes the request a dry run, until its answer, an object or a refusal, has this text.
	Answer string
	// Method, Path, Body and Replica describe a request to an HTTP hook.
	Method, Path, Body string
	Replica            int
	Shard              string
}

func loadWorkloads(t *testing.T) (all []*workload) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		load := &workload{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), Replicas: 1, Namespaces: 1}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for first := true; ; first = false {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var next step
			var into any = &next
			if first {
				into = load
			}
			if err == nil {
				err = sigsyaml.UnmarshalStrict(document, into)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if !first {
				load.steps = append(load.steps, next)
			}
		}
		all = append(all, load)
	}
	return all
}

// installHooks copies the hooks of a directory, with the words of the plan.
func (w *world) installHooks() string {
	w.t.Helper()
	if w.load.Words == nil {
		return filepath.Join(test.Root(), w.load.Hooks)
	}
	dir := w.t.TempDir()
	err := filepath.WalkDir(filepath.Join(test.Root(), w.load.Hooks), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode()&0o111 == 0 {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, d.Name()), []byte(w.words.Replace(string(text))), 0o755)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}
