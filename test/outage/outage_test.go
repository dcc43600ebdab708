// Package outage runs operators whose API server is away for some time.
package outage

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestScripts runs the scripts in testdata, each with a control plane of its own.
func TestScripts(t *testing.T) {
	testenv.Require(t)
	if !test.Long() {
		t.Skip("LONG=1 runs it")
	}
	scripts.Run(t, scripts.Options{Dir: "testdata", Commands: map[string]scripts.Command{"apiserver": apiserverCommand},
		Cluster: func(t testing.TB, _ string) *testenv.Cluster { return testenv.Own(t) }})
}

// apiserver kill|restart: kill the API server, or start it again.
func apiserverCommand(w *scripts.World, _ *testscript.TestScript, _ bool, args []string) {
	if args[0] == "kill" {
		w.Cluster.Kill(w.T, "kube-apiserver")
		return
	}
	w.Cluster.Restart(w.T, "kube-apiserver")
}
