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
