package reload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/testenv"
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
