package testenv

import (
	"bytes"
	"sync"
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

// Text is a log that several goroutines write and a test reads.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String is the text so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
