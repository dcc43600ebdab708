// Package scripts runs scripts of commands beside an operator, on a real control plane or an API server in memory. A file is a script
// and what it needs: hooks/NAME.yaml is the configuration of a hook, for which a hook that prints its binding contexts is made;
// hooks/lib/NAME is shell code that the hook runs, before it prints (its status is the hook's). Other files in hooks that begin with #! are
// hooks themselves. In all files $NS stands for the test's namespace.
package scripts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// World is what the commands of one script share.
type World struct {
	T          testing.TB
	Cluster    *testenv.Cluster
	Namespace  string
	Kubeconfig string
	// Operator is the last one that was started.
	Operator *testenv.Operator
	needs    string
}

// Command is a command of scripts. Its output is what ts.Stdout gets.
type Command func(w *World, ts *testscript.TestScript, neg bool, args []string)

// Recorder is the hook that every configuration gets.
type Recorder struct {
	Script string
	// Config changes the configuration; nil changes nothing.
	Config func(text []byte) []byte
}

// Process prints one line, whatever the size of its contexts.
var Process = Recorder{Script: `#!/bin/sh
if [ "$1" = --config ]; then exec cat "$0.yaml"; fi
lib=$HOOKS/lib/$(basename "$0")
if [ -e "$lib" ]; then . "$lib" || exit; fi
printf 'run '
cat "$BINDING_CONTEXT_PATH"
`}

// Options configure the scripts of one package.
type Options struct {
	// Dir has the scripts. Files are scripts if it is empty.
	Dir   string
	Files []string
	// Hook is Process by default.
	Hook Recorder
	// Cluster returns the control plane of a script; by default it is the shared one.
	Cluster func(t testing.TB, script string) *testenv.Cluster
	// Setup is called before the script; nil for nothing.
	Setup func(w *World, e *testscript.Env) error
	// Condition reports whether a condition of a script holds.
	Condition func(name string) (bool, error)
	// Commands are added to the commands of this package.
	Commands map[string]Command
}

type worldKey struct{}

// Run runs the scripts, each as a subtest.
func Run(t *testing.T, o Options) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs operators, which -short leaves out")
	}
	if o.Hook.Script == "" {
		o.Hook = Process
	}
	needs := needsOf(t, o)
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	add := func(all map[string]Command) {
		for name, do := range all {
			commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
				do(ts.Value(worldKey{}).(*World), ts, neg, args)
			}
		}
	}
	add(common)
	add(o.Commands)
	testscript.Run(t, testscript.Params{
		Dir: o.Dir, Files: o.Files, RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(e *testscript.Env) error { return setup(e, o, needs) }, Condition: o.Condition, Cmds: commands,
	})
}

// needsOf returns why scripts need a real control plane, by their names.
func needsOf(t *testing.T, o Options) map[string]string {
	t.Helper()
	files, needs := o.Files, map[string]string{}
	if o.Dir != "" {
		files, _ = filepath.Glob(filepath.Join(o.Dir, "*.txtar"))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		reason := ""
		if err == nil {
			reason, err = head(string(text))
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		needs[strings.TrimSuffix(filepath.Base(file), ".txtar")] = reason
	}
	return needs
}

var (
	needsLine = regexp.MustCompile(`\A(?:#.*\n)*needs (.*)\n`)
	// Commands of testscript that end a script, which passes then.
	early = regexp.MustCompile(`(?m)^(\[.*\] *)*(needs|skip|stop)\b`)
)

// head returns why a script needs a real control plane: "needs TOPIC: REASON" is the first line after its comment. There is no other way to
// run a part of a script.
func head(text string) (reason string, err error) {
	script, _, _ := strings.Cut("\n"+text, "\n-- ")
	script = strings.TrimPrefix(script, "\n") + "\n"
	if found := needsLine.FindStringSubmatch(script); found != nil {
		reason, script = found[1], script[len(found[0]):]
		err = testenv.CheckNeed(reason)
	}
	if found := early.FindString(script); err == nil && found != "" {
		err = fmt.Errorf("%q: the first line after the comment, needs TOPIC: REASON, leaves a script out, and nothing else", found)
	}
	return reason, err
}

func setup(e *testscript.Env, o Options, needs map[string]string) error {
	t, ok := e.T().(testing.TB)
	if !ok {
		return errors.New("testscript no longer hands over the *testing.T")
	}
	name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
	w := &World{T: t, needs: needs[name]}
	if w.needs != "" {
		testenv.Needs(t, w.needs)
	}
	if o.Cluster != nil {
		w.Cluster = o.Cluster(t, name)
	} else {
		w.Cluster = testenv.Either(t)
	}
	w.Namespace = w.Cluster.Namespace(t)
	w.Kubeconfig = w.Cluster.KubeconfigFor(t, w.Cluster.Kubeconfig, w.Namespace)
	hooks := filepath.Join(e.WorkDir, "hooks")
	e.Vars = slices.Concat(e.Vars, testenv.KubectlVariables(t), []string{"NS=" + w.Namespace, "KUBECONFIG=" + w.Kubeconfig,
		"HOOKS=" + hooks, "OPERATOR=" + testenv.Binary(t), "GORACE=" + os.Getenv("GORACE")})
	if w.Cluster.UserKubeconfig != "" {
		e.Setenv("ALICE", w.Cluster.KubeconfigFor(t, w.Cluster.UserKubeconfig, w.Namespace))
	}
	e.Values[worldKey{}] = w
	if err := prepare(hooks, w.Namespace, o.Hook); err != nil || o.Setup == nil {
		return err
	}
	return o.Setup(w, e)
}

// prepare makes a hook of each configuration.
func prepare(hooks, namespace string, as Recorder) error {
	return filepath.WalkDir(filepath.Dir(hooks), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if replaced := strings.ReplaceAll(string(text), "$NS", namespace); replaced != string(text) {
			if err := os.WriteFile(path, []byte(replaced), 0o644); err != nil {
				return err
			}
		}
		if strings.HasPrefix(string(text), "#!") {
			return os.Chmod(path, 0o755)
		}
		name, isConfig := strings.CutSuffix(path, ".yaml")
		if !isConfig || !strings.HasPrefix(path, hooks) {
			return nil
		}
		if as.Config != nil {
			if text, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(path, as.Config(text), 0o644)
			}
			if err != nil {
				return err
			}
		}
		if _, err := os.Stat(name); err == nil { // a hook of the script
			return nil
		}
		return os.WriteFile(name, []byte(as.Script), 0o755)
	})
}
