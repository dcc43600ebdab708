package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// A scenario that is over in no time leaves a profile of its CPU time and one of its heap.
func TestProfilesOfShortScenario(t *testing.T) {
	cluster := testenv.Shared(t)
	dir := t.TempDir()
	defer func(before string) { profiles = before }(profiles)
	profiles = dir
	t.Run("scenario", func(t *testing.T) {
		b := &bench{T: t, scenario: scenario{name: "short"}, cluster: cluster}
		b.start(b.hooks(hook("{configVersion: v1, onStartup: 1}", "echo ran"))).untilCount("ran", 1)
	})
	found, err := filepath.Glob(filepath.Join(dir, "short-*.pprof"))
	if err != nil || len(found) != 2 || !strings.HasSuffix(found[0], ".cpu.pprof") || !strings.HasSuffix(found[1], ".heap.pprof") {
		t.Fatalf("profiles %q, error %v", found, err)
	}
	for _, path := range found {
		if info, err := os.Stat(path); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", path, err)
		}
	}
}
