// Package tenant gives tenants their accounts: clients whose requests have a token of the tenant's ServiceAccount.
//
// Callers may rely on this:
//   - A request of a tenant's client has a token of its account, or is not sent. It never has credentials of the operator.
//   - Tokens are renewed when 80 % of their lifetime are over, and after the API server has rejected one, with back-off. One that has not
//     expired is used until then. After Doubt one is checked: only processes of hooks may have sent it for long.
//   - A client can be kept: its token is replaced in place. So is the file of the token, which is private and never half written.
//   - A tenant without a token affects no other one.
//   - Neither the log nor an error has a token.
//
// Not attempted: tokens that end with the Pod of the operator. The API server binds a token to a Pod only if the Pod runs as the account.
package tenant

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Options of Tenants. Config, Dir and Log are required.
type Options struct {
	// Config is the connection of the operator, which requests the tokens.
	Config *rest.Config
	// Complete, if set, completes the connection of a tenant: limits, fencing, metrics.
	Complete func(*rest.Config) *rest.Config
	// Dir is a private directory for the files of tokens.
	Dir string
	Log *slog.Logger
	// Lifetime is what is asked for; 0 means an hour. Clock is that of renewals; nil means the real one.
	Lifetime time.Duration
	Clock    clock.WithDelayedExecution
	// Changed, if set, is called when an account has got its first token, or has none any more. It must not block.
	Changed func()
}

// Tenants are those of the hooks that are there. It is safe for concurrent use.
type Tenants struct {
	opts   Options
	client rest.Interface
	// wake has a token when Run has to start accounts. Its capacity is 1.
	wake chan struct{}

	mu sync.Mutex
	// used are the tenants in use, accounts theirs, and unstarted those of them that Run has not received.
	used      []*hook.Tenant
	accounts  map[hook.ServiceAccount]*account
	unstarted []*account
}

// New returns Tenants, of which none is used. It sends no request.
func New(o Options) (*Tenants, error) {
	client, err := kube.NewClient(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the tokens of tenants: %w", err)
	}
	if o.Complete == nil {
		o.Complete = func(c *rest.Config) *rest.Config { return c }
	}
	o.Lifetime = cmp.Or(o.Lifetime, defaultLifetime)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Tenants{
		opts: o, client: client, wake: make(chan struct{}, 1), accounts: map[hook.ServiceAccount]*account{},
	}, nil
}

// Use makes the tenants of hooks those in use. The accounts of others end, and their files.
func (t *Tenants) Use(hooks []*hook.Hook) {
	used := map[hook.ServiceAccount]bool{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = nil
	for _, h := range hooks {
		if of := h.Tenant; of != nil {
			used[of.ServiceAccount] = true
			if !slices.ContainsFunc(t.used, func(u *hook.Tenant) bool { return u.Name == of.Name && u.ServiceAccount == of.ServiceAccount }) {
				t.used = append(t.used, of)
			}
			t.account(of)
		}
	}
	for name, a := range t.accounts {
		if !used[name] {
			a.end()
			delete(t.accounts, name)
		}
	}
	slices.SortFunc(t.used, func(a, b *hook.Tenant) int { return cmp.Compare(a.Name, b.Name) })
}

// account returns the account of a tenant, which begins if it is not there. It requires mu.
func (t *Tenants) account(of *hook.Tenant) *account {
	a := t.accounts[of.ServiceAccount]
	if a == nil {
		a = newAccount(t, of.ServiceAccount)
		t.accounts[of.ServiceAccount] = a
		t.unstarted = append(t.unstarted, a)
		kube.Wake(t.wake)
	}
	return a
}

// clean removes the files of an account that has ended, unless it is there again: its next token may be in them.
func (t *Tenants) clean(a *account) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if again := t.accounts[a.name]; again == nil || again == a {
		a.writing.Lock()
		defer a.writing.Unlock()
		_ = os.RemoveAll(filepath.Dir(a.file))
	}
}

// Run requests and renews tokens until ctx ends. It removes the files of tokens.
func (t *Tenants) Run(ctx context.Context) {
	defer os.RemoveAll(t.opts.Dir)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-t.wake:
			t.mu.Lock()
			begin := t.unstarted
			t.unstarted = nil
			t.mu.Unlock()
			for _, a := range begin {
				running.Go(func() { a.run(ctx) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// of returns the account of a tenant. One that is not in use any more has no token.
func (t *Tenants) of(of *hook.Tenant) *account {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.accounts[of.ServiceAccount]; a != nil {
		return a
	}
	a := newAccount(t, of.ServiceAccount)
	a.end()
	return a
}

// Account returns what requests of a tenant are sent as.
func (t *Tenants) Account(of *hook.Tenant) kube.Account {
	a := t.of(of)
	return kube.Account{Client: a.client, Name: a.name.String()}
}

// Client returns another client of the account, with a connection of its own.
func (t *Tenants) Client(of *hook.Tenant, complete func(*rest.Config) *rest.Config) rest.Interface {
	return t.of(of).connect(t.opts.Config, complete)
}

// TokenFile is the path of the file with the current token of a tenant. It is there as soon as the tenant is ready: if it was removed, it
// is written again.
func (t *Tenants) TokenFile(of *hook.Tenant) (string, error) {
	a := t.of(of)
	return a.file, a.restore()
}

// Doubt has the token of a tenant checked, because a run has failed that may have sent it. It does not wait for that.
func (t *Tenants) Doubt(of *hook.Tenant) { t.of(of).doubt() }

// Waits is why the hooks of a tenant have to wait: it has no token. It is empty for one that has.
func (t *Tenants) Waits(of *hook.Tenant) string {
	a := t.of(of)
	if _, err := a.current(); err != nil {
		return err.Error()
	}
	return ""
}

// Status of a tenant.
type Status struct {
	*hook.Tenant
	// Ready: it has a token. Problem is why there is none, or why it cannot be renewed; empty if it can.
	Ready   bool
	Problem string
	// Missing: the account does not exist.
	Missing bool
}

// Status returns that of the tenants in use, by their names.
func (t *Tenants) Status() []Status {
	t.mu.Lock()
	used, accounts := t.used, maps.Clone(t.accounts)
	t.mu.Unlock()
	all := make([]Status, 0, len(used))
	for _, of := range used {
		all = append(all, accounts[of.ServiceAccount].status(of))
	}
	return all
}

// write replaces a file.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".token-") // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = cmp.Or(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
