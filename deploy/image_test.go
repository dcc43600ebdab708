package deploy

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestDockerfileJQ: jq 1.8 rejects values that filters of existing hooks pass to ltrimstr and tonumber.
func TestDockerfileJQ(t *testing.T) {
	if v := argument(t, "JQ_VERSION"); !strings.HasPrefix(v, "1.7.") {
		t.Errorf("jq is %s, want 1.7", v)
	}
}

// TestNoUser: a Dockerfile from the image with a shell can run apk add. The chart sets a user.
func TestNoUser(t *testing.T) {
	if strings.Contains(read(t, "image/Dockerfile"), "\nUSER") {
		t.Error("the Dockerfile has a USER")
	}
}

// TestKubectlVersion: kubectl in the image and in tests has the version of the operator's client library.
func TestKubectlVersion(t *testing.T) {
	version := func(module, file string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^\s+` + module + ` v0\.(\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(test.Root(), file)))
		if m == nil {
			t.Fatalf("%s does not require %s", file, module)
		}
		return m[1]
	}
	if kubectl, client := version("k8s.io/kubectl", "kubectl/go.mod"), version("k8s.io/client-go", "go.mod"); kubectl != client {
		t.Errorf("kubectl is v1.%s, the client library that of v1.%s", kubectl, client)
	}
}

// argument is the default of a build argument of the Dockerfile, which BuildKit itself checks in the workflow ci.
func argument(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ARG ` + name + `=(.*)$`).FindStringSubmatch(read(t, "image/Dockerfile"))
	if m == nil {
		t.Fatalf("no ARG %s", name)
	}
	return m[1]
}

// TestEntrypointInPages: arguments after the name of an image go to the program, so they begin with a command.
func TestEntrypointInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(test.Root(), "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`docker run .*my-operator (\S+)`).FindAllStringSubmatch(string(text), -1) {
			found++
			if m[1] == "shell-operator" || m[1] == "/shell-operator" {
				t.Errorf("%s: %q runs /shell-operator %s, which is not a command", filepath.Base(page), m[0], m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page runs an image: remove this test")
	}
}

// TestDockerContext: the build gets what the Dockerfile copies, and no more.
func TestDockerContext(t *testing.T) {
	copied, sent := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^COPY ((?:--chmod=\S+ )?)([^-].*) \S+$`).FindAllStringSubmatch(read(t, "image/Dockerfile"), -1) {
		for source := range strings.FieldsSeq(m[2]) {
			copied[source] = true
			if _, err := os.Stat(filepath.Join(test.Root(), source)); err != nil {
				t.Error(err)
			}
		}
	}
	for line := range strings.Lines(read(t, "image/Dockerfile.dockerignore")) {
		if pattern, found := strings.CutPrefix(strings.TrimSpace(line), "!"); found {
			sent[pattern] = true
		}
	}
	below := func(path string, all map[string]bool) bool {
		for other := range all {
			if path == other || strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/") {
				return true
			}
		}
		return false
	}
	for path := range copied {
		if !below(path, sent) {
			t.Errorf("the Dockerfile copies %s, which .dockerignore leaves out", path)
		}
	}
	for path := range sent {
		if !below(path, copied) {
			t.Errorf("no step of the Dockerfile copies %s", path)
		}
	}
	for _, file := range filesOfProgram(t) {
		isSent := false
		for pattern := range sent {
			fits, _ := path.Match(pattern, file)
			isSent = isSent || fits || strings.HasPrefix(file, pattern+"/")
		}
		if !isSent {
			t.Errorf("the program needs %s, which .dockerignore leaves out", file)
		}
	}
}

// filesOfProgram are the sources and embedded files of our packages in the program.
func filesOfProgram(t *testing.T) (files []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}"+
		"{{range .EmbedFiles}}{{$.Dir}}/{{.}}\n{{end}}{{end}}{{end}}", "./cmd/shell-operator")
	cmd.Dir = test.Root()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if file := strings.TrimSpace(line); file != "" {
			files = append(files, strings.TrimPrefix(file, test.Root()+"/"))
		}
	}
	return files
}

// TestLicenses: each module in a program has its licence in what goes with the program.
func TestLicenses(t *testing.T) {
	for _, row := range []struct {
		module   string
		packages []string
		program  func() string
	}{
		{".", []string{"./cmd/shell-operator"}, func() string { return testenv.Binary(t) }},
		{"kubectl", []string{".", "./trimmed"}, func() string { return filepath.Join(filepath.Dir(test.Tools(t)), "kubectl") }},
	} {
		t.Run(row.module, func(t *testing.T) {
			testenv.Require(t) // for the programs
			info, err := buildinfo.ReadFile(row.program())
			if err != nil {
				t.Fatal(err)
			}
			text, err := exec.Command(filepath.Join(test.Root(), "scripts", "licenses.sh"), append([]string{row.module}, row.packages...)...).
				Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range info.Deps {
				if !strings.Contains(string(text), "\n"+m.Path+" "+m.Version+"\n") {
					t.Errorf("no licence of %s %s", m.Path, m.Version)
				}
			}
			if !strings.Contains(string(text), "\nThe Go library go1.") ||
				!strings.Contains(string(text), "Redistribution and use in source and binary forms") {
				t.Error("the licence of Go is missing")
			}
		})
	}
}
