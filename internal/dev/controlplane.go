package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// ControlPlane is where a control plane comes from, and where its files are. It listens on loopback.
type ControlPlane struct {
	// Path is InMemory; or a program such as testcluster, which starts a control plane by itself: "start --dir DIR" prints "ready";
	// or a directory with
	// the programs etcd and kube-apiserver, as setup-envtest fetches them. Such a one has no controller manager: Deployments create no Pods,
	// and a Namespace has no ServiceAccount. Dir is the directory for its files. The file kubeconfig is for an administrator.
	Path, Dir string
	Env       []string
}

// InMemory is the path of an API server in memory, which is not Kubernetes: it has no admission, defaults, controllers or permissions.
const InMemory = "memory"

// Kubeconfig is the path of the kubeconfig of an administrator.
func (o ControlPlane) Kubeconfig() string { return filepath.Join(o.Dir, "kubeconfig") }

// binaries are those that a directory has to have.
var binaries = []string{"etcd", "kube-apiserver"}

// Separate reports whether a path is a directory of programs. An error names what is missing.
func Separate(path string) (bool, error) {
	if path == InMemory {
		return false, nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("cannot start a control plane: there is no file %s: write memory, or name the program testcluster, or "+
			"a directory with etcd and kube-apiserver", path)
	case err != nil:
		return false, fmt.Errorf("cannot start a control plane: %w", err)
	case !info.IsDir():
		return false, nil
	}
	for _, name := range binaries {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return false, fmt.Errorf("cannot start a control plane: %s has no program %s: name a directory with etcd and kube-apiserver, "+
				"which 'setup-envtest use -p path' prints, or the program testcluster", path, name)
		}
	}
	return true, nil
}

// termDelay is how long a program has to end by itself.
const termDelay = 10 * time.Second

// readyTimeout is how long a control plane may take to become ready on a busy machine.
const readyTimeout = 2 * time.Minute

// Run starts the control plane, calls do once it is ready, and ends it.
func (o ControlPlane) Run(ctx, kill context.Context, do func(context.Context) error) error {
	if o.Path == InMemory {
		return o.inMemory(ctx, do)
	}
	separate, err := Separate(o.Path)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	s := starter{process.New(process.Options{TermDelay: termDelay, Kill: kill}), o.Env}
	if separate {
		return s.separate(ctx, o, path, do)
	}
	ready := make(chan struct{})
	var once sync.Once
	program := process.Invocation{
		Hook: o.Path, Path: path, Args: []string{"start", "--dir", o.Dir},
		Stdout: func(line []byte) {
			if string(line) == "ready" {
				once.Do(func() { close(ready) })
			}
		},
	}
	return s.during(ctx, program, func(ctx context.Context) error {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, do)
}

// starter starts programs.
type starter struct {
	executor *process.Executor
	env      []string
}

// during starts a program, waits until it is ready, calls do, and ends the program.
func (s starter) during(ctx context.Context, program process.Invocation, ready, do func(context.Context) error) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its users
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	program.Dir, program.Env, program.Stderr = "/", s.env, func([]byte) {}
	var ending sync.WaitGroup
	ending.Go(func() {
		_, err := s.executor.Execute(running, program)
		if err == nil {
			err = errors.New("exit status 0")
		}
		if running.Err() == nil {
			fail(fmt.Errorf("the control plane has ended: %w", err))
		}
	})
	defer ending.Wait()
	defer stop()
	err := ready(ctx)
	if err == nil {
		err = do(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return err
}
