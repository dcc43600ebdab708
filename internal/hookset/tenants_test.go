package hookset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

const shop = "{name: shop, folder: shop, serviceAccount: shop/hooks}"

// newTenants is a library whose hooks are in folders, with a file of tenants.
func newTenants(t *testing.T, tenants string, hooks ...string) *library {
	l := newLibrary(t, 0)
	l.opts.Tenants = filepath.Join(t.TempDir(), "tenants.yaml")
	l.tenants(tenants)
	for _, name := range hooks {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(l.opts.Dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		l.write(name, onStartup1)
	}
	return l
}

const onStartup1 = "{configVersion: v1, onStartup: 1}"

func (l *library) tenants(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.opts.Tenants, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// reload loads a set after that of the hooks, uses it, and returns the change.
func (l *library) reload(active []*hook.Hook) Change {
	l.t.Helper()
	l.opts.Active = active
	set := l.load()
	c := set.ChangeFrom(active)
	l.store.Use(set, c.Loaded)
	return c
}

func names(hooks []*hook.Hook) string {
	var all []string
	for _, h := range hooks {
		if h.Tenant != nil {
			all = append(all, h.Name+"="+h.Tenant.Name+":"+h.Tenant.ServiceAccount.Name)
		} else {
			all = append(all, h.Name)
		}
	}
	return strings.Join(all, " ")
}

// A hook that gets, changes or loses its tenant is another one; all others stay.
func TestTenantsOfHooks(t *testing.T) {
	l := newTenants(t, "[]", "a", "shop/b", "shop/eu/c")
	c := l.reload(nil)
	for _, step := range []struct{ tenants, hooks, changed string }{
		{"[]", "a shop/b shop/eu/c", ""},
		{"[" + shop + "]", "a shop/b=shop:hooks shop/eu/c=shop:hooks", "shop/b shop/eu/c"},
		{"[{name: eu, folder: shop/eu, serviceAccount: eu/hooks}, " + shop + "]", "a shop/b=shop:hooks shop/eu/c=eu:hooks", "shop/eu/c"},
		{"[{name: eu, folder: shop/eu, serviceAccount: eu/other}, " + shop + "]", "a shop/b=shop:hooks shop/eu/c=eu:other", "shop/eu/c"},
		{"[{name: eu, folder: shop/eu, serviceAccount: eu/other, limits: {files: 1Mi}}, " + shop + "]",
			"a shop/b=shop:hooks shop/eu/c=eu:other", "shop/eu/c"},
		{"[]", "a shop/b shop/eu/c", "shop/b shop/eu/c"},
	} {
		l.tenants(step.tenants)
		c = l.reload(c.Hooks)
		if got, changed := names(c.Hooks), strings.Join(c.Changed, " "); got != step.hooks || changed != step.changed {
			t.Errorf("%s: %s, changed %s, want %s, %s", step.tenants, got, changed, step.hooks, step.changed)
		}
	}
}

// A file that is not valid, or cannot be read, is an error with its path, and nothing is loaded.
func TestInvalidTenants(t *testing.T) {
	l := newTenants(t, "[{name: shop}]", "a")
	for _, want := range []string{l.opts.Tenants + ": the file of tenants is not valid",
		"cannot read the file of tenants: open " + l.opts.Tenants} {
		if _, err := l.store.Load(t.Context(), l.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := Load(t.Context(), l.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := os.RemoveAll(l.opts.Tenants); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.copies(); n != 0 {
		t.Errorf("%d copies", n)
	}
}

// Broken hooks of tenants are left out, those of the default tenant are an error.
func TestBrokenHooksOfTenants(t *testing.T) {
	l := newTenants(t, "["+shop+", {name: paint, folder: paint, serviceAccount: paint/hooks}]", "a", "paint/b", "shop/c", "shop/d")
	l.write("paint/b", "{configVersion: v7}")
	l.write("shop/c", "no: config")
	first := l.load()
	if got := names(first.Hooks); got != "a shop/d=shop:hooks" || len(first.Broken) != 2 {
		t.Errorf("hooks %s, broken %v", got, first.Broken)
	}
	l.store.Use(first, first.Hooks)
	var rejected []string
	l.opts.Rejected = func(names []string) { rejected = names }
	l.write("a", "{configVersion: v7}")
	l.write("shop/c", onStartup1)
	l.opts.Active = first.Hooks
	_, err := l.store.Load(t.Context(), l.opts)
	var broken *LoadError
	if !errors.As(err, &broken) || len(broken.Causes()) != 1 || broken.Causes()["a"] == "" {
		t.Errorf("error %v", err)
	}
	if slices.Sort(rejected); strings.Join(rejected, " ") != "a paint/b shop/c shop/d" {
		t.Errorf("rejected %q", rejected)
	}
	// They are called again with the tenants of the set that is used.
	l.tenants("[]")
	again, err := l.store.Retry(t.Context(), l.opts, []string{"paint/b", "shop/c"})
	if err != nil || len(again.Hooks) != 0 || len(again.Broken) != 2 {
		t.Errorf("%v, %v", again, err)
	}
	l.store.Drop(again)
}

// The previous version of a broken hook stays active, but not with an account that the hook has no more.
func TestBrokenHookWithAnotherTenant(t *testing.T) {
	l := newTenants(t, "["+shop+"]", "shop/a")
	c := l.reload(nil)
	l.write("shop/a", "no: config")
	if c = l.reload(c.Hooks); names(c.Hooks) != "shop/a=shop:hooks" {
		t.Errorf("hooks %s", names(c.Hooks))
	}
	l.tenants("[{name: shop, folder: shop, serviceAccount: shop/other}]")
	if c = l.reload(c.Hooks); len(c.Hooks) != 0 || strings.Join(c.Removed, " ") != "shop/a" {
		t.Errorf("hooks %s, removed %s", names(c.Hooks), c.Removed)
	}
}

// A tenant cannot take the finalizer of a hook of the operator.
func TestTenantContradictsDefault(t *testing.T) {
	finalizing := func(name string, tenant *hook.Tenant) *hook.Hook {
		return &hook.Hook{Name: name, Tenant: tenant, Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/x"}}}
	}
	tenant := &hook.Tenant{Name: "shop", Folder: "shop/"}
	o := Options{tenants: []*hook.Tenant{tenant}}
	problems := map[string]error{}
	got := o.agreeing([]*hook.Hook{finalizing("shop/a", tenant), finalizing("z", nil)}, problems, false)
	if names(got) != "z" || problems["shop/a"] == nil {
		t.Errorf("hooks %s, problems %v", names(got), problems)
	}
}

// A folder without hooks is a warning: the hooks may be elsewhere, with the operator's account.
func TestTenantWithoutHooks(t *testing.T) {
	l := newTenants(t, "[{name: shop, folder: shopp, serviceAccount: shop/hooks}]", "shop/a")
	l.reload(nil)
	if want := "WARN A tenant has no hooks: shop, shopp/"; !strings.Contains(l.log.String(), want) {
		t.Errorf("log\n%s", l.log)
	}
}

// A change of the file of tenants, also as a mounted ConfigMap, is a change of the hooks.
func TestFollowTenants(t *testing.T) {
	dir, mounted := t.TempDir(), t.TempDir()
	file := filepath.Join(mounted, "tenants.yaml")
	mount(t, mounted, "..1", map[string]string{"tenants.yaml": "[]"})
	before := Look(dir, file)
	mount(t, mounted, "..2", map[string]string{"tenants.yaml": "[]"})
	if others, hooks := before.differences(Look(dir, file)); len(others) != 0 || !slices.Equal(hooks, []string{file}) {
		t.Errorf("others %q, hooks %q", others, hooks)
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		t.Fatal(err)
	}
	if all := Directories(dir, file); !all[mounted] || !all[filepath.Dir(real)] {
		t.Errorf("directories %v", all)
	}
}
