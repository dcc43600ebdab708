package hookset

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// readTenants reads the file of tenants. Without a path there are none.
func readTenants(path string) ([]*hook.Tenant, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the file of tenants: %w", err)
	}
	tenants, err := wire.ParseTenants(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tenants, nil
}

// WithTenants returns the options with the tenants of the file, for calls of Ask. Without it, hooks have none.
func (o Options) WithTenants() (_ Options, err error) {
	o.tenants, err = readTenants(o.Tenants)
	return o, err
}

// warnOfUnlimited logs that the limits of processes do not hold on this system.
func (s *Store) warnOfUnlimited(set *Set) {
	limited := func(t *hook.Tenant) bool { return limitsOf(t).String() != "" }
	if !process.LimitsProcesses && slices.ContainsFunc(set.tenants, limited) {
		s.opts.Log.Warn("Limits of processes do not hold on this system: memory, cpuTime, files and openFiles of tenants have no effect",
			"system", runtime.GOOS)
	}
}

// limitsOf are the limits of a tenant's config calls, whose output has a limit of its own.
func limitsOf(t *hook.Tenant) process.Limits {
	l := t.Limits
	return process.Limits{Memory: l.Memory, CPUTime: l.CPUTime, Files: l.Files, OpenFiles: l.OpenFiles}
}

// warnOfEmptyTenants logs tenants without a hook: the hooks may be in a folder with a similar name, with the operator's account.
func (s *Store) warnOfEmptyTenants(set *Set) {
	for _, t := range set.tenants {
		of := func(name string) bool { return hook.TenantOf(set.tenants, name) == t }
		if !slices.ContainsFunc(set.Hooks, func(h *hook.Hook) bool { return of(h.Name) }) &&
			!slices.ContainsFunc(set.Broken, func(b Broken) bool { return of(b.Name) }) {
			s.opts.Log.Warn("A tenant has no hooks", "tenant", t.Name, "path", t.Folder,
				"hint", "check the folder in the file of tenants: hooks outside of the folders have the operator's account")
		}
	}
}

// keepsTenant reports whether an active hook has the tenant that it would be loaded with: the account of another one may have been taken
// from it.
func keepsTenant(h *hook.Hook, tenants []*hook.Tenant) bool {
	return reflect.DeepEqual(h.Tenant, hook.TenantOf(tenants, h.Name))
}
