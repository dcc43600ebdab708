package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Script writes an executable file below a directory, or replaces it as programs do that never leave half of one.
func Script(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	hidden := filepath.Join(filepath.Dir(path), ".new")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(hidden, []byte(text), 0o755),
		os.Rename(hidden, path)); err != nil {
		t.Fatal(err)
	}
}

// Hooks returns a directory with these executable files, by their names.
func Hooks(t testing.TB, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		Script(t, dir, name, text)
	}
	return dir
}

// Testdata returns a file of the package's testdata. Pairs are words and what comes in their place.
func Testdata(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}
