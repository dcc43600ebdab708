package watch

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A control plane of our own ends with the process.
		goleak.IgnoreAnyFunction("github.com/shell-operator/shell-operator/internal/testenv.runOnOneThread"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"),
	)
}
