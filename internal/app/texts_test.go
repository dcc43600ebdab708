package app

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hookset"
)

// Files that hooks write in their runs do not make them run from a copy, once they are known.
func TestRestlessFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hook, state := filepath.Join(dir, "hook"), filepath.Join(dir, "state")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(hook, "#!/bin/sh\n")
	texts := newTexts(Options{WatchHooks: true, HooksDir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, t.TempDir())
	c, complete := texts.copied(hookset.Look(dir))
	if !complete {
		t.Fatal("the copy is not complete")
	}
	texts.kept.Use(c)
	at := func() string {
		text := texts.forRuns().Take()
		defer text.Release()
		return text.At(hook)
	}
	if at() != hook {
		t.Errorf("before any change: %s", at())
	}
	write(state, "1")
	texts.kept.Look()
	if at() == hook {
		t.Error("after a change the hook runs from its own file")
	}
	texts.addRestless([]string{state})
	if at() != hook {
		t.Errorf("with a restless file: %s", at())
	}
	write(hook, "#!/bin/sh\necho\n") // nobody tells
	if at() == hook {
		t.Error("after a change of the hook it runs from its own file")
	}
}

// Who does not follow files has no copies.
func TestNoTexts(t *testing.T) {
	if texts := newTexts(Options{}, t.TempDir()); texts != nil || texts.forRuns() != nil {
		t.Error("there are copies")
	}
}
