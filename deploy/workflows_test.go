package deploy

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
)

// TestWorkflows runs actionlint, which validates the syntax of workflows and the inputs of common actions.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(test.Root(), ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	// Without the checkers of scripts, which are not on every machine.
	if out, err := exec.Command(tool(t, "actionlint"), append([]string{"-shellcheck=", "-pyflakes=", "-no-color"}, files...)...).
		CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}

// TestPinned: a tag of an action or an image can be moved, so both are named by what cannot change.
func TestPinned(t *testing.T) {
	workflows, err := filepath.Glob(filepath.Join(test.Root(), ".github", "workflows", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	commit := regexp.MustCompile(`^[\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range workflows {
		text := read(t, file)
		for _, m := range regexp.MustCompile(`(?m)\buses: (.*)$`).FindAllStringSubmatch(text, -1) {
			if !commit.MatchString(m[1]) {
				t.Errorf("%s uses %q, want a commit and its version as a comment", filepath.Base(file), m[1])
			}
		}
		if n := strings.Count(text, "actions/checkout@"); n != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s: %d checkouts, not each with persist-credentials: false", filepath.Base(file), n)
		}
	}
	release := read(t, filepath.Join(test.Root(), ".github", "workflows", "release.yml"))
	if strings.Count(release, "actions/setup-go@") != strings.Count(release, "cache: false") ||
		!strings.Contains(release, "cache-image: false") {
		t.Error("a job of the release has a cache, which runs of other workflows write")
	}
	dockerfile := read(t, "image/Dockerfile")
	for _, m := range regexp.MustCompile(`(?m)^(?:# syntax=|FROM (?:--platform=\S+ )?)(\S+)`).FindAllStringSubmatch(dockerfile, -1) {
		if !regexp.MustCompile(`@sha256:[0-9a-f]{64}$`).MatchString(m[1]) {
			t.Errorf("the Dockerfile names %s without a digest", m[1])
		}
	}
}

// TestOneGo: all programs and images are built with one version of Go, which the toolchain lines name.
func TestOneGo(t *testing.T) {
	versions := map[string]string{}
	for _, file := range []string{"go.mod", "kubectl/go.mod", "tools/go.mod", "tools/hugo/go.mod",
		"testcluster/go.mod", "bench/peers/go.mod"} {
		m := regexp.MustCompile(`(?m)^toolchain go(.*)$`).FindStringSubmatch(read(t, filepath.Join(test.Root(), file)))
		if m == nil {
			t.Fatalf("%s has no line toolchain", file)
		}
		versions[file] = m[1]
	}
	for _, m := range regexp.MustCompile(`golang:([0-9.]+)-`).FindAllStringSubmatch(read(t, "image/Dockerfile"), -1) {
		versions["Dockerfile "+m[0]] = m[1]
	}
	for file, version := range versions {
		if version != versions["go.mod"] {
			t.Errorf("%s has Go %s, go.mod %s", file, version, versions["go.mod"])
		}
	}
}
