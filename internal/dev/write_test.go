package dev

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestRewrite replaces a file in one step, through a link: who reads it has one of the texts.
func TestRewrite(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "a_test.yaml"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(file, []byte("before"), 0o640), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(link)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := rewrite(link, []byte("other"), []byte("after")); err == nil {
		t.Error("a text that was changed is replaced")
	}
	if err := rewrite(link, []byte("before"), []byte("after")); err != nil {
		t.Fatal(err)
	}
	old, _ := io.ReadAll(reader)
	text, _ := os.ReadFile(file)
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o640 || string(old) != "before" || string(text) != "after" {
		t.Errorf("the reader has %q, the file %q with %v, %v", old, text, info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
