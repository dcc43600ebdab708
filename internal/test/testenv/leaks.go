package testenv

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, and fails when one has left a goroutine behind. A control plane of our own ends with
// the process.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/shell-operator/shell-operator/internal/test/testenv.runOnOneThread"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"),
	)
}
