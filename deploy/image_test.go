package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// instruction is one of a Dockerfile, as BuildKit's parser reads it.
type instruction struct {
	Stage, Command string
	Args, Flags    []string
	Line           int
}

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	out, err := exec.Command(tool(t, "dockerfile"), "image/Dockerfile").Output()
	if err != nil {
		var problem *exec.ExitError
		if errors.As(err, &problem) {
			t.Fatalf("%s", problem.Stderr)
		}
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var i instruction
		if err := decoder.Decode(&i); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	return all
}

// TestDockerfile compares the image with what is promised of it. Whether the image can be built is found out by make test-image,
// which needs a container engine; the workflow ci calls it.
func TestDockerfile(t *testing.T) {
	all := dockerfile(t)
	var last []instruction
	for _, i := range all {
		if i.Command == "FROM" {
			last = nil
		}
		last = append(last, i)
	}
	args := func(command string) (found []string) {
		for _, i := range last {
			if i.Command == command {
				found = append(found, i.Args...)
			}
		}
		return found
	}
	for command, want := range map[string]string{
		"FROM": "alpine:3.22", "ENTRYPOINT": "/sbin/tini -- /shell-operator", "CMD": "start", "WORKDIR": "/",
		"ENV": "SHELL_OPERATOR_HOOKS_DIR /hooks = LOG_TYPE json =",
		// Images of users begin with FROM and go on with RUN apk add; the original exposes nothing either.
		"USER": "", "EXPOSE": "", "HEALTHCHECK": "", "VOLUME": "",
	} {
		if got := strings.Join(args(command), " "); got != want {
			t.Errorf("%s is %q, want %q", command, got, want)
		}
	}
	copies := map[string]string{}
	for _, i := range last {
		if i.Command == "COPY" {
			copies[i.Args[1]] = i.Args[0]
			if !slices.Contains(i.Flags, "--chmod=0755") {
				t.Errorf("line %d: %s cannot be executed by everybody", i.Line, i.Args[1])
			}
		}
	}
	for path, from := range map[string]string{
		"/shell-operator": "/out/shell-operator", "/bin/kubectl": "/out/kubectl", "/usr/bin/jq": "/out/jq", "/shell_lib.sh": "sdk/shell/shell_lib.sh", "/frameworks": "sdk/shell/frameworks",
	} {
		if copies[path] != from {
			t.Errorf("%s is a copy of %q, want %q", path, copies[path], from)
		}
	}
	run := strings.Join(args("RUN"), "\n")
	for _, want := range []string{
		"mkdir -p /hooks /var/run/shell-operator", "ln -s /shell-operator /usr/local/bin/shell-operator", "chown 65532:0 /var/run/shell-operator", "chmod 0770 /var/run/shell-operator",
	} {
		if !strings.Contains(run, want) {
			t.Errorf("no %q in\n%s", want, run)
		}
	}
	installed := strings.Fields(regexp.MustCompile(`apk add --no-cache (.*)`).FindStringSubmatch(run)[1])
	for _, want := range []string{"bash", "ca-certificates", "curl", "sed", "tini"} {
		if !slices.Contains(installed, want) {
			t.Errorf("%s is not installed", want)
		}
	}
	// Alpine's jq does not run in images that copy it.
	if slices.Contains(installed, "jq") {
		t.Error("jq is installed as a package, so it has shared libraries")
	}
}

// TestDockerfileJQ: later versions refuse values that filters of existing hooks hand to ltrimstr and tonumber.
func TestDockerfileJQ(t *testing.T) {
	for _, i := range dockerfile(t) {
		if i.Command == "ARG" && strings.HasPrefix(i.Args[0], "JQ_VERSION=") {
			if !strings.HasPrefix(i.Args[0], "JQ_VERSION=1.7.") {
				t.Errorf("%s, want 1.7", i.Args[0])
			}
			return
		}
	}
	t.Error("no JQ_VERSION")
}

// TestDockerfileKubectl: hooks call a kubectl of the same minor version as the operator's client library.
func TestDockerfileKubectl(t *testing.T) {
	gomod, err := os.ReadFile(filepath.Join(testenv.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	client := regexp.MustCompile(`k8s\.io/client-go v0\.(\d+\.\d+)`).FindSubmatch(gomod)
	want := "v1." + string(client[1])
	for _, i := range dockerfile(t) {
		if i.Command == "ARG" && strings.HasPrefix(i.Args[0], "KUBECTL_VERSION=") {
			if got := strings.TrimPrefix(i.Args[0], "KUBECTL_VERSION="); got != want {
				t.Errorf("kubectl is %s, but the client library is that of %s", got, want)
			}
			return
		}
	}
	t.Error("no ARG KUBECTL_VERSION")
}

// TestEntrypointInPages: what pages write behind the name of an image goes to the program, so it begins with a command.
func TestEntrypointInPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testenv.Root(), "docs", "*", "*.md"))
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
				t.Errorf("%s: %q runs /shell-operator %s, for which there is no command", filepath.Base(page), m[0], m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page runs an image: take this test away")
	}
}

// TestDockerfileContext: all that is copied is in the repository, and .dockerignore lets it through.
func TestDockerfileContext(t *testing.T) {
	ignore, err := os.ReadFile("image/Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var let []string
	for line := range strings.Lines(string(ignore)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			let = append(let, path)
		}
	}
	for _, i := range dockerfile(t) {
		if i.Command != "COPY" || slices.ContainsFunc(i.Flags, func(f string) bool { return strings.HasPrefix(f, "--from=") }) {
			continue
		}
		for _, path := range i.Args[:len(i.Args)-1] {
			if _, err := os.Stat(filepath.Join(testenv.Root(), path)); err != nil {
				t.Errorf("line %d: %v", i.Line, err)
			}
			if !slices.ContainsFunc(let, func(l string) bool {
				return path == l || strings.HasPrefix(path, l+"/") || strings.HasPrefix(l, path+"/")
			}) {
				t.Errorf("line %d: .dockerignore keeps %s out", i.Line, path)
			}
		}
	}
}
