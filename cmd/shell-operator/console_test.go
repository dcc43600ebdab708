package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestOpenBrowser: the console prints its address if there is no display, or the program that opens the browser fails.
func TestOpenBrowser(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("it has another program")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, row := range []struct{ display, script string }{{"", "exit 0"}, {":0", "exit 3"}, {":0", ""}, {":0", "exit 0"}} {
		t.Setenv("DISPLAY", row.display)
		t.Setenv("WAYLAND_DISPLAY", "")
		program := filepath.Join(dir, "xdg-open")
		_ = os.Remove(program)
		if row.script != "" {
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+row.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err, opens := openBrowser("/tmp/a"), row.display != "" && row.script == "exit 0"; (err == nil) != opens {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// The way to the next event does not need kubectl.
func TestNextEvent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := nextEvent("/k", "hooks/*.yaml"); !strings.Contains(got, "write objects to hooks/*.yaml and start again") {
		t.Error(got)
	}
}
