package deploy

import (
	_ "embed"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

//go:embed testdata/header.yaml
var plainHeader string

// plainServices are the Services for webhooks, with the names that the operator expects by default.
//
//go:embed testdata/services.yaml
var plainServices string

// helmLines are the labels of objects that Helm manages.
var helmLines = regexp.MustCompile(`(?m)^ +(app\.kubernetes\.io/managed-by|helm\.sh/chart|app\.kubernetes\.io/version): .*\n`)

// TestManifests keeps the plain manifests equal to what the chart makes.
func TestManifests(t *testing.T) {
	cmd := exec.Command(tool(t, "chart"), "render", "--no-hooks", "--name", "shell-operator", "--namespace",
		"shell-operator", filepath.Join(test.Root(), "deploy", "chart"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := plainHeader + strings.TrimPrefix(helmLines.ReplaceAllString(string(out), ""), "---\n") + plainServices
	golden.Compare(t, "manifests/shell-operator.yaml", want)
}

// TestRolesOfBoth: what rbac prints for the ServiceAccount of the plain manifests replaces nothing of them.
func TestRolesOfBoth(t *testing.T) {
	notShort(t)
	hooks := t.TempDir()
	write(t, filepath.Join(hooks, "watch"), "#!/bin/sh\necho '{configVersion: v1, kubernetes: [{kind: Node}, {kind: Pod, namespace: "+
		"{nameSelector: {matchNames: [shell-operator]}}}]}'\n", 0o755)
	printed, err := exec.Command(testenv.Binary(t), "rbac", "--hooks-dir", hooks, "--namespace", "shell-operator", "--offline").Output()
	if err != nil {
		t.Fatal(err)
	}
	manifests, own := parse(t, read(t, "manifests/shell-operator.yaml")), parse(t, string(printed))
	for name := range own {
		if manifests[name] != nil {
			t.Errorf("%s is in both", name)
		}
	}
	if account := own.at(t, "RoleBinding/shell-operator-hooks", "subjects"); manifests["ServiceAccount/shell-operator"] == nil ||
		!strings.Contains(account, "name: shell-operator\n") {
		t.Errorf("the rules are for %s", account)
	}
}
