package hookset

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/process"
)

// A hook that prints without end, to either stream, is killed long before its time is up, and takes little memory.
func TestConfigCallPrintsWithoutEnd(t *testing.T) {
	for _, stream := range []string{"", " >&2"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "hook.sh")
		text := "#!/bin/sh\nyes 'configVersion: v1 configVersion: v1 configVersion: v1 configVersion: v1'" + stream + "\n"
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		c := &Options{Executor: process.New(process.Options{}), Env: os.Environ(), Timeout: 10 * time.Minute}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, _, err := c.execute(t.Context(), File{Name: "hook.sh", Path: path}, dir)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "it printed more than 16777216 bytes and was killed") {
			t.Errorf("error %v", err)
		}
		if grown := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; grown > 64 {
			t.Errorf("%d MiB more are in use", grown)
		}
	}
}
