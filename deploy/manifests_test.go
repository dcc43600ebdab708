package deploy

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

const plainHeader = `# shell-operator without Helm: what the chart makes of its default values.
# Written by go test ./deploy -run TestManifests -update. To change it, use kustomize, or the chart.
apiVersion: v1
kind: Namespace
metadata:
  name: shell-operator
---
`

// plainServices are those of webhooks, with the names that the operator expects by default.
const plainServices = `---
# For hooks with webhooks.
apiVersion: v1
kind: Service
metadata:
  name: shell-operator-validating-svc
  namespace: shell-operator
spec:
  selector: {app.kubernetes.io/name: shell-operator, app.kubernetes.io/instance: shell-operator}
  ports: [{name: webhooks, port: 443, targetPort: 9680}]
---
apiVersion: v1
kind: Service
metadata:
  name: shell-operator-conversion-svc
  namespace: shell-operator
spec:
  selector: {app.kubernetes.io/name: shell-operator, app.kubernetes.io/instance: shell-operator}
  ports: [{name: webhooks, port: 443, targetPort: 9681}]
`

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
