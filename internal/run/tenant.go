package run

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// limitsOf are the limits of a tenant that a run has.
func limitsOf(t *hook.Tenant) process.Limits {
	if t == nil {
		return process.Limits{}
	}
	l := t.Limits
	return process.Limits{Memory: l.Memory, CPUTime: l.CPUTime, Files: l.Files, OpenFiles: l.OpenFiles, Output: l.Output}
}

// named adds the limits that held to the failure of a run: too little memory, or too many open files, are errors of its program, which do
// not name the limit.
func named(h *hook.Hook, l process.Limits, err error) error {
	if held := l.String(); err != nil && held != "" {
		return fmt.Errorf("%w (limits of tenant %s: %s)", err, h.TenantName(), held)
	}
	return err
}
