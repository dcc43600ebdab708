package hookset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// answers are what hooks do when they are called.
type answers map[string]func(ctx context.Context) (stdout, stderr string, err error)

func (a answers) call(ctx context.Context, f File, dir string) ([]byte, []byte, error) {
	if f.Path != filepath.Join(dir, f.Name) {
		return nil, nil, fmt.Errorf("called %s in %s", f.Path, dir)
	}
	stdout, stderr, err := a[f.Name](ctx)
	return []byte(stdout), []byte(stderr), err
}

// prints is a hook that returns immediately.
func prints(stdout, stderr string, err error) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return stdout, stderr, err }
}

// options returns Options for a tree that has a hook for each answer.
func options(t *testing.T, a answers) (Options, *lines) {
	t.Helper()
	var tree strings.Builder
	for name := range a {
		fmt.Fprintln(&tree, name)
	}
	log, logged := newLog()
	return Options{
		Dir: makeTree(t, tree.String()), call: a.call, Filters: jq.NewCompiler(jq.Options{}), Log: log, Parallel: 1,
	}, logged
}

func TestHooks(t *testing.T) {
	o, log := options(t, answers{
		"b.sh":   prints("configVersion: v1\nonStartup: 2\nonStartup: 3\n", "this is not shown", nil),
		"a/b.sh": prints("configVersion: v1\nkubernetes: [{kind: Pod}, {kind: svc}]\n", "", nil),
	})
	hooks, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(hooks) != 2 || hooks[0].Name != "a/b.sh" || hooks[1].Name != "b.sh" || *hooks[1].OnStartup != 3 {
		t.Errorf("hooks %+v", hooks)
	}
	want := `INFO Load config: a/b.sh, a/b.sh
INFO Load config: b.sh, b.sh
WARN Configuration is accepted, but check this: b.sh, onStartup: duplicate key, in lines 2 and 3: the last one counts
INFO Loaded config: a/b.sh, Watch k8s kinds: 'Pod, svc'
INFO Loaded config: b.sh, OnStartup:3
`
	if got := strings.ReplaceAll(log.String(), o.Dir+"/", ""); got != want {
		t.Errorf("log\n%s\nwant\n%s", got, want)
	}
}

// TestContextsPerRun covers who decides how many contexts a run gets: the hook, then the operator's default, then the script.
func TestContextsPerRun(t *testing.T) {
	const reads = "#!/bin/sh\njq -r '.[0].object.kind' \"$BINDING_CONTEXT_PATH\"\n"
	config := func(rest string) func(context.Context) (string, string, error) {
		return prints("{configVersion: v1, "+rest+"}", "", nil)
	}
	o, log := options(t, answers{
		"all.sh":   config("kubernetes: [{kind: Pod}], settings: {contextsPerRun: 0}"),
		"auto.sh":  config("kubernetes: [{kind: Pod}], settings: {contextsPerRun: auto}"),
		"group.sh": config("kubernetes: [{kind: Pod, group: g}]"), "loop.sh": config("kubernetes: [{kind: Pod}]"),
		"none.sh": config("kubernetes: [{kind: Pod}]"),
		"rate.sh": config("kubernetes: [{kind: Pod}], settings: {executionMinInterval: 1s}"),
		"two.sh":  config("kubernetes: [{kind: Pod}], settings: {contextsPerRun: 2}"),
		"v0.sh":   prints("onKubernetesEvent: [{kind: Pod}]", "", nil),
	})
	for _, name := range []string{"all.sh", "auto.sh", "group.sh", "loop.sh", "none.sh", "rate.sh", "two.sh", "v0.sh"} {
		text := reads
		if name == "loop.sh" {
			text += "jq '.[].object.kind' \"$BINDING_CONTEXT_PATH\"\n"
		}
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]string{
		hook.AutoContexts: "all.sh=0 auto.sh=1* group.sh=0 loop.sh=0 none.sh=1* rate.sh=0 two.sh=2 v0.sh=1",
		0:                 "all.sh=0 auto.sh=1* group.sh=0 loop.sh=0 none.sh=0 rate.sh=0 two.sh=2 v0.sh=1",
		5:                 "all.sh=0 auto.sh=1* group.sh=5 loop.sh=5 none.sh=5 rate.sh=5 two.sh=2 v0.sh=1",
	} {
		o.ContextsPerRun = limit
		hooks, err := Load(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hooks {
			star := map[bool]string{true: "*"}[h.Settings.OneByOne]
			got = append(got, fmt.Sprintf("%s=%d%s", h.Name, h.Settings.ContextsPerRun, star))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("default %d: %s, want %s", limit, got, want)
		}
	}
	if want := "INFO The hook runs once per context: it reads only the first one: auto.sh, auto.sh, 2, jq -r '.[0].object.kind' " +
		"\"$BINDING_CONTEXT_PATH\", settings"; strings.Count(log.String(), want) != 3 {
		t.Errorf("log\n%s\nhas not 3 times %q", log, want)
	}
}

func TestNoHooksIsAWarning(t *testing.T) {
	o, log := options(t, nil)
	hooks, err := Load(t.Context(), o)
	if err != nil || len(hooks) != 0 {
		t.Errorf("hooks %v, error %v", hooks, err)
	}
	if want := "WARN No hooks found: put executable files into the hooks directory and start again: " + o.Dir + "\n"; log.String() != want {
		t.Errorf("log %q, want %q", log, want)
	}
}

func TestAllBrokenHooksAreReported(t *testing.T) {
	o, log := options(t, answers{
		"a-fails.sh":   prints("half", "no such command: jq\n", &process.ExitError{Status: "exit status 127", Stderr: "no such command: jq"}),
		"b-good.sh":    prints("configVersion: v1\nonStartup: 1\n", "", nil),
		"c-invalid.sh": prints("configVersion: v2\nconfigVersion: v2\n", "warning: old\n", nil),
		"d-quiet.sh":   prints("", "", nil),
		"e-no-exit.sh": prints("configVersion: v1\nonStartup: 1\n", "", &process.ExitError{Status: "exit status 2", Stderr: "no file"}),
		"f-mute.sh":    prints("", "", &process.ExitError{Status: "exit status 3"}),
	})
	hooks, err := Load(t.Context(), o)
	if hooks != nil || err == nil {
		t.Fatalf("hooks %v, error %v", hooks, err)
	}
	var broken *LoadError
	causes := map[string]Rejection{
		"f-mute.sh":    {"the call with --config failed: exit status 3", "it printed nothing"},
		"a-fails.sh":   {"the call with --config failed: exit status 127", "no such command: jq"},
		"c-invalid.sh": {"the configuration is not valid: configVersion … is not supported", ""},
		"d-quiet.sh":   {"the configuration is not valid: it printed nothing", ""},
		"e-no-exit.sh": {"the call with --config failed: exit status 2", "no file"},
	}
	if !errors.As(err, &broken) || !maps.Equal(broken.Causes(), causes) {
		t.Errorf("causes: %v", broken.Causes())
	}
	want := `cannot load hooks: hook "a-fails.sh": the call with --config failed: exit status 127: no such command: jq
hook "c-invalid.sh": the configuration is not valid:
  * configVersion "v2" is not supported: use "v1"
The hook printed:
configVersion: v2
configVersion: v2

The hook wrote to stderr:
warning: old
hook "d-quiet.sh": the configuration is not valid:
  * it printed nothing: print a configuration that begins with "configVersion: v1" to stdout when the first argument is --config; ` +
		`a hook with a library ends with hook::run "$@" or hook.run()
hook "e-no-exit.sh": the call with --config failed: exit status 2: no file: it has printed a valid configuration; make it exit after that
hook "f-mute.sh": the call with --config failed: it printed nothing: exit status 3`
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if broken := (*wire.ConfigError)(nil); !errors.As(err, &broken) || broken.Hook != "c-invalid.sh" {
		t.Errorf("the *ConfigError is lost: %v", broken)
	}
	for _, line := range []string{"ERROR Hook config output: a-fails.sh, half\n",
		"ERROR Hook config stderr: a-fails.sh, no such command: jq\n",
		// Warnings are logged also for a configuration that has errors.
		"WARN Configuration is accepted, but check this: c-invalid.sh, configVersion: duplicate key"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("log\n%s\nhas no %q", log, line)
		}
	}
}

// TestCancel ends the context during the first call: it ends, and no other is made.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	waits := func(ctx context.Context) (string, string, error) {
		cancel()
		<-ctx.Done()
		return "", "", errors.New("killed")
	}
	o, log := options(t, answers{"a.sh": waits, "b.sh": waits, "c.sh": waits})
	if _, err := Load(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := strings.Count(log.String(), "Load config"); got != 1 {
		t.Errorf("%d calls, want 1; log\n%s", got, log)
	}
}

func TestSummary(t *testing.T) {
	golden.Wants(t, "testdata/summaries.txtar", func(t *testing.T, f txtar.File) string {
		o, _ := options(t, answers{"hook.sh": prints(string(f.Data), "", nil)})
		hooks, err := Load(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return Summary(hooks[0]) + "\n"
	})
}
