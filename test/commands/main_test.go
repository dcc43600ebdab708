// Package commands tests commands of the program on a real control plane.
package commands

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }

// command runs the program and returns its standard output. The test fails when it does.
func command(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

// try runs the program and returns its standard output and status.
func try(t *testing.T, kubeconfig string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(testenv.Binary(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Logf("%q: %s", args, stderr.String())
	}
	return stdout.String(), cmd.ProcessState.ExitCode()
}
