package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/testenv"
)

// TestWorkflows asks actionlint, which knows what GitHub takes and the inputs of common actions.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testenv.Root(), ".github", "workflows", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	// Without the checkers of scripts, which are not on every machine.
	if out, err := exec.Command(tool(t, "actionlint"), append([]string{"-shellcheck=", "-pyflakes=", "-no-color"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}

// TestReleaseIsComplete: the last job of a release looks for every program, image and platform that others make.
func TestReleaseIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(testenv.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(text), "\n  complete:\n")
	if !ok {
		t.Fatal("release.yml has no job complete")
	}
	programs := regexp.MustCompile(`(?m)^PLATFORMS := (.*)$`).FindStringSubmatch(string(makefile))
	if wanted := regexp.MustCompile(`for p in (.*?);`).FindStringSubmatch(last); programs == nil || wanted == nil || programs[1] != wanted[1] {
		t.Errorf("the Makefile builds %q, the release wants %q", programs, wanted)
	}
	pushed := regexp.MustCompile(`--platform (linux/\S+)`).FindStringSubmatch(string(text))
	for _, platform := range strings.Split(pushed[1], ",") {
		if !regexp.MustCompile(`image check .*--platform ` + platform + ` .*"\$IMAGE:\$VERSION"`).MatchString(last) {
			t.Errorf("the image with a shell for %s is not looked for", platform)
		}
	}
	for _, m := range regexp.MustCompile(`--binary (linux/\w+)=`).FindAllStringSubmatch(string(makefile), -1) {
		if !regexp.MustCompile(`image check --sbom .*--platform ` + m[1] + ` .*-static"`).MatchString(last) {
			t.Errorf("the static image for %s is not looked for", m[1])
		}
	}
	if published, checked := strings.Index(last, "--draft=false"), strings.LastIndex(last, "image check"); published < checked {
		t.Error("the release is published before it is known to be complete")
	}
}
