package reload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Too many files are not copied: hooks run from the files as they are, and everybody can know.
func TestTooLargeForACopy(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	d.hook("hook", "v1", "{configVersion: v1, onStartup: 1}")
	if err := errors.Join(os.WriteFile(filepath.Join(d.path, "large"), nil, 0o644), os.Truncate(filepath.Join(d.path, "large"), 1<<30)); err != nil {
		t.Fatal(err)
	}
	op := start(t, cluster, d)
	warning := op.UntilLog("No copy of the hooks is kept: while they are loaded anew, and while that fails, hooks run from files that have changed")
	if got := warning.Fields["error"]; got != "the files are larger than 256 MiB in all" {
		t.Errorf("error %q", got)
	}
	until(op, t, "hook v1: onStartup")
	d.hook("hook", "v2", bindings("{kinds: Pod}"))
	op.UntilLog("The hooks cannot be loaded anew, those from before go on")
	if err := os.Remove(filepath.Join(d.path, "large")); err != nil {
		t.Fatal(err)
	}
	d.hook("hook", "v3", "{configVersion: v1, onStartup: 2}")
	reloaded(op, 1)
}

// A set whose files change with each load is loaded once more a few times, and then taken.
func TestChangedWhileLoaded(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	d.put("restless", "#!/bin/sh\nif [ \"$1\" = --config ]; then date +%s%N >called; echo '{configVersion: v1, onStartup: 1}'; exit; fi\n", 0o755)
	op := start(t, cluster, d)
	op.UntilLog("No configuration has changed. The new files count from the next runs on.")
	vain := 0
	for _, r := range op.Records() {
		if r.Has("No configuration has changed. The new files count from the next runs on.") {
			break
		}
		if r.Has("Files of hooks have changed while they were loaded. Load all hooks once more.") {
			vain++
		}
	}
	if vain != 3 {
		t.Errorf("%d times in vain", vain)
	}
}

// Nobody tells of changes elsewhere. The next run of a hook that leads there sees them, uses what was loaded, and has the
// hooks loaded anew.
func TestLinkedHook(t *testing.T) {
	cluster := testenv.Shared(t)
	d, elsewhere := dir{t, t.TempDir(), cluster.Namespace(t)}, dir{t, t.TempDir(), ""}
	elsewhere.put("hook", fmt.Sprintf(script, "v1"), 0o755)
	d.config("hook", bindings(fmt.Sprintf(watching, "maps", "ConfigMap", "a, b")))
	if err := os.Symlink(filepath.Join(elsewhere.path, "hook"), filepath.Join(d.path, "hook")); err != nil {
		t.Fatal(err)
	}
	op := start(t, cluster, d)
	want := []string{"hook v1: maps Synchronization"}
	until(op, t, want...)
	elsewhere.put("hook", fmt.Sprintf(script, "v2"), 0o755)
	configMap(t, cluster, d.ns, "a")
	want = append(want, "hook v1: maps Added a")
	until(op, t, want...)
	op.UntilLog("No configuration has changed. The new files count from the next runs on.")
	configMap(t, cluster, d.ns, "b")
	until(op, t, append(want, "hook v2: maps Added b")...)
}
