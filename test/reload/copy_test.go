package reload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A config call that writes beside its hook writes into the copy: nothing is reloaded for it.
func TestConfigCallWrites(t *testing.T) {
	cluster := testenv.Shared(t)
	d := dir{t, t.TempDir(), cluster.Namespace(t)}
	d.put("writes", "#!/bin/sh\nif [ \"$1\" = --config ]; then date +%s%N >called; echo '{configVersion: v1, onStartup: 1}'; exit; fi\n",
		0o755)
	op := start(t, cluster, d)
	op.UntilLog("Hook executed successfully")
	d.hook("other", "v1", "{configVersion: v1, onStartup: 1}")
	reloaded(op, 1)
	if _, err := os.Stat(filepath.Join(d.path, "called")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the hooks directory was written to: %v", err)
	}
}

// The files that links lead to are followed, too.
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
	op.UntilLog("No configuration has changed. The next runs use the new files.")
	configMap(t, cluster, d.ns, "b")
	until(op, t, append(want, "hook v2: maps Added b")...)
}
