// Package dev has the tools of hook authors that need no operator: Init writes a first version of a hook, Lint checks hooks, Try runs
// one once, Test runs their tests in simulated clusters, RBAC generates their Roles. For the command dev, a ControlPlane runs, LoadObjects
// creates its first objects, and FollowTests repeats tests when files change.
//
// Callers may rely on this:
//   - Hooks are called, run and checked by the code of the operator, so results agree with it.
//   - Only LoadObjects changes a cluster, the one that its caller names. RBAC reads one, if there is one.
//   - Nothing is left behind: no process, no file, except the files of a ControlPlane, which are in one directory of the caller.
//
// Not attempted: to protect a ControlPlane against other users of the machine, or against a power cut.
package dev

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Options are the operator's settings that these tools use.
type Options struct {
	// HooksDir may be relative.
	HooksDir string
	// Env is our environment, HookEnv are names and patterns of what hooks inherit of it; none means all.
	Env, HookEnv []string
	// Workers lets hooks with settings.worker serve runs as workers.
	Workers       bool
	JQLibraryPath []string
	// ConfigTimeout ends a config call, HookTimeout a run (0 means none).
	ConfigTimeout, HookTimeout time.Duration
	// ContextsPerRun and SkipExistingV0 are as in hookset.Options.
	ContextsPerRun int
	SkipExistingV0 bool
	Cluster        kube.Options
}

// prepare completes the environment of hooks. It returns a private directory, which the caller removes.
func prepare(o *Options) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "shell-operator-"); err != nil {
		return "", fmt.Errorf("cannot make a temp directory: %w", err)
	}
	if o.Env, err = hookset.WithLibraries(hookset.Inherited(o.Env, o.HookEnv), dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// discovery makes config calls as the operator does, without a log.
func discovery(o Options) hookset.Options {
	return hookset.Options{
		Dir: o.HooksDir, Env: o.Env, Timeout: o.ConfigTimeout, Executor: process.New(process.Options{}),
		Filters: jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath}), Log: silent(), SkipExistingV0: o.SkipExistingV0,
		ContextsPerRun: o.ContextsPerRun,
	}
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }
