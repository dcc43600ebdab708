package app

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// confinement makes the environments of tenants.
type confinement struct {
	files *workspace.Workspace
	// config is the operator's connection. patterns are those of --hook-env.
	config   *rest.Config
	patterns []string
	// tokenFile is the path of a tenant's token.
	tokenFile func(*hook.Tenant) (string, error)

	writing sync.Mutex // is held while a kubeconfig is written
}

// env is the part of the environment of hooks that those of a tenant have, with its home directory and its kubeconfig.
func (c *confinement) env(t *hook.Tenant, env []string) ([]string, error) {
	home, err := c.files.TenantHome(t.Name)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.kubeconfig(t)
	if err != nil {
		return nil, fmt.Errorf("cannot write the kubeconfig of tenant %s: %w", t.Name, err)
	}
	return append(hookset.Confined(env, c.patterns), "HOME="+home, "KUBECONFIG="+kubeconfig), nil
}

// kubeconfig returns the path of that of a tenant, and writes it if it is missing. Its token is in another file, which is renewed. Each
// account has its own: a run goes on with that of its start when a reload gives the tenant another account.
func (c *confinement) kubeconfig(t *hook.Tenant) (string, error) {
	token, err := c.tokenFile(t)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.files.Dir(), "tenant-"+t.Name, t.ServiceAccount.Namespace+"_"+t.ServiceAccount.Name)
	path := filepath.Join(dir, "kubeconfig")
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	text, err := kube.TokenKubeconfig(c.config, token, t.ServiceAccount.Namespace)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path) // a hook may be reading it
}

// prepare makes what a worker needs before it is started.
func (c *confinement) prepare(in process.Invocation) (err error) {
	if in.Tenant == "" {
		_, err = c.files.Prepare(in.Hook)
		return err
	}
	_, err = c.files.TenantHome(in.Tenant)
	return err
}
