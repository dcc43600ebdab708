package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAffected selects the tests to run after changes of files.
func TestAffected(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"a.sh": "", "a_test.yaml": "cases: [{name: x, startup: true}]\n", "b.sh": "", "b_test.yaml": "cases: [{name: x, startup: true}]\n",
		"more/both_test.yaml": "hook: ../a.sh\ncases: [{name: x, startup: true}]\n", "fixtures/pod.yaml": "",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for changed, want := range map[string]string{
		"": "", "a.sh": "a_test.yaml more/both_test.yaml", "b_test.yaml": "b_test.yaml",
		"a.sh b.sh":         "a_test.yaml b_test.yaml more/both_test.yaml",
		"fixtures/pod.yaml": "a_test.yaml b_test.yaml more/both_test.yaml", "more/both_test.yaml b.sh": "b_test.yaml more/both_test.yaml",
	} {
		var paths, got []string
		for name := range strings.FieldsSeq(changed) {
			paths = append(paths, filepath.Join(dir, name))
		}
		for _, path := range affected(dir, paths) {
			got = append(got, strings.TrimPrefix(path, dir+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", changed, got, want)
		}
	}
}
