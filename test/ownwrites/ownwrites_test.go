// Package ownwrites runs hooks that decide by their snapshots and write what they include, behind watches that are late.
package ownwrites

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestScripts runs the scripts in testdata. [long] holds in make long.
func TestScripts(t *testing.T) {
	scripts.Run(t, scripts.Options{Dir: "testdata", Commands: map[string]scripts.Command{"late": lateCommand},
		Condition: func(name string) (bool, error) { return name == "long" && test.Long(), nil }})
}

// late DURATION: set $LATE to a kubeconfig for the API server, with watches that are late.
func lateCommand(w *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	delay, err := time.ParseDuration(args[0])
	ts.Check(err)
	gateway, kubeconfig := testenv.NewGateway(w.T, w.Cluster.Kubeconfig, 1)
	gateway.Make(testenv.Trouble{WatchDelay: delay})
	ts.Setenv("LATE", kubeconfig)
}
