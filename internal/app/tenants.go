package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/tenant"
)

// newTenants makes the accounts of tenants. What hooks of tenants change has the limits of what others change.
func (op *operator) newTenants(cl *kube.Cluster, dir string, o Options) (*tenant.Tenants, error) {
	return tenant.New(tenant.Options{
		Config: cl.Config, Dir: filepath.Join(dir, "tokens"), Log: o.Log, Lifetime: o.TokenLifetime, Clock: o.Clock,
		Changed: func() {
			select {
			case op.tokens <- struct{}{}:
			default:
			}
		},
		Complete: func(config *rest.Config) *rest.Config {
			config = o.Patches.Client(config)
			o.Election.fence(config)
			op.meter.Count(config, "object_patcher")
			return config
		},
	})
}

// followTokens lets hooks begin that wait for a token, until ctx ends.
func (op *operator) followTokens(ctx context.Context) {
	for {
		select {
		case <-op.tokens:
			op.watcher.Review()
			op.life.Wake()
		case <-ctx.Done():
			return
		}
	}
}

// access decides which runs of hooks of tenants wait.
type access struct{ *operator }

func (a access) Waits(h *hook.Hook) string           { return a.tenants.Waits(h.Tenant) }
func (a access) Denied(h *hook.Hook, index int) bool { return a.watcher.Denied(h, index) }

// keepTokens requests and renews tokens until the function that it returns is called, after the last run.
func (op *operator) keepTokens() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { op.tenants.Run(ctx) })
	return func() { stop(); running.Wait() }
}

// account is what requests of a hook are sent as; the zero value is the operator.
func (op *operator) account(h *hook.Hook) kube.Account {
	if h.Tenant == nil {
		return kube.Account{}
	}
	return op.tenants.Account(h.Tenant)
}

// lateLimits is why the last process of a tenant got its limits only after its start; nil if it did not.
type lateLimits struct{ refused atomic.Pointer[error] }

const lateLimitsHint = "let the operator trace its processes: set kernel.yama.ptrace_scope of the node to 0 or 1, allow ptrace in the " +
	"seccomp profile, and do not run the operator below strace"

func (op *operator) limited(late error) { op.lateLimits.note(op.log, late) }

// note takes the reason, or nil, of a process that has been started. It logs the first one.
func (l *lateLimits) note(log *slog.Logger, refused error) {
	if refused == nil {
		l.refused.Store(nil)
		return
	}
	if l.refused.Swap(&refused) == nil {
		log.Warn("Limits of tenants are set after the start of processes: what a process forks at once may escape them",
			"error", refused.Error(), "hint", lateLimitsHint)
	}
}

// troubles are about the hooks of tenants among those that are active.
func (l *lateLimits) troubles(hooks []*hook.Hook) []debug.Trouble {
	refused := l.refused.Load()
	var limited []string
	for _, h := range hooks {
		if h.Tenant != nil {
			limited = append(limited, h.Name)
		}
	}
	if refused == nil || limited == nil {
		return nil
	}
	return []debug.Trouble{{Kind: debug.InTenant, Subject: "the limits of tenants", Hint: lateLimitsHint, Hooks: limited,
		Problem: "they are set after the start of processes, what a process forks at once may escape them: " + (*refused).Error()}}
}
