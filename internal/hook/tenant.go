package hook

import (
	"strings"
	"time"
)

// Tenant is an account, limits and names of their own for the hooks of a folder. Hooks cannot choose it. Equal tenants are the same one,
// whatever their addresses are.
type Tenant struct {
	// Name is a DNS label.
	Name string
	// Folder is that of the hooks, relative to the hooks directory. It ends with a slash.
	Folder string
	// ServiceAccount is what the hooks read and write as.
	ServiceAccount ServiceAccount
	Limits         Limits
	// Webhooks are the namespaces that webhooks of the tenant are registered for, sorted; empty means that it may have none.
	Webhooks []string
}

// ServiceAccount names an account of the cluster.
type ServiceAccount struct {
	Namespace, Name string
}

func (a ServiceAccount) String() string { return a.Namespace + "/" + a.Name }

// User is the name of the account for the API server.
func (a ServiceAccount) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// Limits of the runs of a tenant. 0 means no limit.
type Limits struct {
	// Memory bounds the data of each process, Files each file that it writes, in bytes; OpenFiles is how many it has open.
	Memory, Files int64
	OpenFiles     int
	// CPUTime bounds each process of a run; it is in whole seconds.
	CPUTime time.Duration
	// Output bounds what the processes of a run print, in bytes.
	Output int64
	// Concurrency is how many runs of the tenant there are at once, Series how many series of metrics each hook has.
	Concurrency, Series int
}

// TenantOf returns the tenant of a hook: that of the longest folder which the hook is below. Nil is the default tenant: the operator's
// account without limits.
func TenantOf(tenants []*Tenant, hook string) (of *Tenant) {
	for _, t := range tenants {
		if strings.HasPrefix(hook, t.Folder) && (of == nil || len(t.Folder) > len(of.Folder)) {
			of = t
		}
	}
	return of
}
