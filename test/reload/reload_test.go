// Package reload changes the files of hooks while an operator runs with --watch-hooks.
package reload

import (
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/scripts"
)

// TestScripts runs the scripts in testdata.
func TestScripts(t *testing.T) { scripts.Run(t, scripts.Options{Dir: "testdata"}) }
