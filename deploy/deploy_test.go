// Package deploy tests what is delivered: the chart is rendered and applied to a real API server, the plain manifests equal
// what the chart renders, actionlint accepts the workflows, and scripts/release.sh refuses an incomplete release. The images with
// a shell are built and used in the workflow ci, by make test-image.
package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// tool returns the path of a program that make delivery-tools builds. Without it the test is skipped, unless it is run by
// make test-cluster.
func tool(t *testing.T, name string) string {
	t.Helper()
	testenv.Needs(t, "programs: "+name)
	path := filepath.Join(test.Root(), "bin", "tools", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	const how = "needs bin/tools/%s: run 'make delivery-tools' once, or all such tests with 'make test-cluster'"
	if os.Getenv("TESTCLUSTER") == "required" {
		t.Fatalf(how, name)
	}
	t.Skipf(how, name)
	return ""
}

func notShort(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the operator, which -short leaves out")
	}
}

// render renders the chart with a text of values. The error is what the user of the chart reads.
func render(t *testing.T, namespace, values string, flags ...string) (string, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"render", "--name", "shop", "--namespace", namespace, "--values", file}, flags...)
	cmd := exec.Command(tool(t, "chart"), append(args, filepath.Join(test.Root(), "deploy", "chart"))...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err == nil {
		return string(out), ""
	}
	return string(out), errors.String()
}

// objects are the objects of a manifest, by kind and name.
type objects map[string]*unstructured.Unstructured

func parse(t *testing.T, manifest string) objects {
	t.Helper()
	found := objects{}
	for _, text := range strings.Split(manifest, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(o.Object) == 0 {
			continue
		}
		key := o.GetKind() + "/" + o.GetName()
		if (o.GetKind() == "Role" || strings.HasSuffix(o.GetKind(), "Monitor")) &&
			o.GetNamespace() != "shop" {
			key = o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
		}
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = o
	}
	return found
}

// rendered renders valid values, with "--no-hooks" without Helm's hooks.
func rendered(t *testing.T, values string, flags ...string) objects {
	t.Helper()
	manifest, problem := render(t, "shop", values, flags...)
	if problem != "" {
		t.Fatalf("%s\nwith the values\n%s", problem, values)
	}
	return parse(t, manifest)
}

// at returns the part of an object at a path, as YAML.
func (o objects) at(t *testing.T, key string, path ...string) string {
	t.Helper()
	object := o[key]
	if object == nil {
		t.Fatalf("there is no %s", key)
	}
	part, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s has no %s: %v", key, strings.Join(path, "."), err)
	}
	text, err := yaml.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// normal writes YAML in the one way that the tests compare.
func normal(t *testing.T, text string) string {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
