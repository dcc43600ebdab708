package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"shell-operator": main})
}

// TestScript runs the program as a user at a terminal would. No script needs a cluster.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHELL_OPERATOR_LISTEN_ADDRESS", "127.0.0.1")
			e.Setenv("SHELL_OPERATOR_LISTEN_PORT", "0")
			e.Setenv("DEBUG_UNIX_SOCKET", filepath.Join(e.WorkDir, "debug.socket"))
			e.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "operator-here" {
				return false, fmt.Errorf("there is no condition %q", cond)
			}
			// A demo may be running on this machine.
			c, err := net.Dial("unix", "/var/run/shell-operator/debug.socket")
			if err == nil {
				c.Close()
			}
			return err == nil, nil
		},
		UpdateScripts: os.Getenv("UPDATE") != "",
	})
}
