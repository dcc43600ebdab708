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
	// Path is InMemory, or a program such as testcluster, which starts a control plane by itself: "start --dir DIR" prints "ready".
	// Dir is the directory for its files. The file kubeconfig is for an administrator.
	Path, Dir string
	Env       []string
}

// InMemory is the path of an API server in memory, which is not Kubernetes: it has no admission, defaults, controllers or permissions.
const InMemory = "memory"

// Kubeconfig is the path of the kubeconfig of an administrator.
func (o ControlPlane) Kubeconfig() string { return filepath.Join(o.Dir, "kubeconfig") }

// CheckControlPlane rejects a path that is no program.
func CheckControlPlane(path string) error {
	if info, err := os.Stat(path); path != InMemory && (err != nil || !info.Mode().IsRegular()) {
		return fmt.Errorf("cannot start a control plane: there is no program %s: write memory, or name the program testcluster", path)
	}
	return nil
}

// termDelay is how long the program has to end by itself.
const termDelay = 10 * time.Second

// Run starts the control plane, calls do once it is ready, and ends it.
func (o ControlPlane) Run(ctx, kill context.Context, do func(context.Context) error) error {
	if o.Path == InMemory {
		return o.inMemory(ctx, do)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its users
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ready := make(chan struct{})
	var once sync.Once
	program := process.Invocation{
		Hook: o.Path, Path: path, Args: []string{"start", "--dir", o.Dir}, Dir: "/", Env: o.Env, Stderr: func([]byte) {},
		Stdout: func(line []byte) {
			if string(line) == "ready" {
				once.Do(func() { close(ready) })
			}
		},
	}
	var ending sync.WaitGroup
	ending.Go(func() {
		_, err := process.New(process.Options{TermDelay: termDelay, Kill: kill}).Execute(running, program)
		if err == nil {
			err = errors.New("exit status 0")
		}
		if running.Err() == nil {
			fail(fmt.Errorf("the control plane has ended: %w", err))
		}
	})
	defer ending.Wait()
	defer stop()
	select {
	case <-ready:
		err = do(ctx)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return err
}
