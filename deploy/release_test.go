package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// registryHost stands for GitHub's registry. Clients speak plain HTTP with registries of such names, so that a proxy can answer:
// each test has one of its own. It refuses their attempt at HTTPS.
const registryHost = "ghcr.localhost"

const repositoryName = "shell-operator/shell-operator"

// TestRelease runs release.yml: its shell text and the Makefile as they are, on a program that is built in no time, with a
// registry on the loopback interface. Whatever is missing, the last job fails and publishes nothing.
func TestRelease(t *testing.T) {
	t.Parallel()
	whole := prepare(t, "v1.2.3")
	pushed := regexp.MustCompile(`--platform (linux/\S+)`).FindStringSubmatch(whole.flow.Jobs["image"].Steps[len(whole.flow.Jobs["image"].Steps)-1].Run)
	if pushed == nil {
		t.Fatal("the job image pushes for no platforms")
	}

	type fault struct {
		name  string
		edit  [2]string                                // text of the workflow that is replaced
		skip  string                                   // job that does nothing
		at    string                                   // job before which spoil is called: complete by default
		spoil func(t *testing.T, a *actions, in store) // takes something away
		want  string                                   // what the last job then says
	}
	faults := []fault{
		{name: "no image with a shell", skip: "image", want: repositoryName + ":v1.2.3 is missing"},
		{name: "no static image", skip: "static-image", want: "v1.2.3-static is missing"},
		{name: "no chart", skip: "chart", want: "404"},
		{name: "no release", skip: "github", want: "no such file"},
		{name: "no SBOM of the image with a shell", edit: [2]string{"--sbom=true ", ""}, want: "linux/arm/v7: its SBOM is missing"},
		{name: "no SBOM of the static image", at: "static-image", want: "linux/arm64: its SBOM is missing", spoil: func(t *testing.T, a *actions, _ store) {
			forgetSBOMs(t, filepath.Join(a.dir, "artifacts", "image", "index.json"))
		}},
		{name: "a chart of another image", want: "grep", spoil: func(t *testing.T, a *actions, _ store) {
			command(t, filepath.Join(a.repository, "bin/tools/chart"), "package", "--version", "1.2.3", "--app-version", "v1.2.2",
				"--to", filepath.Join(a.dir, "artifacts", "dist"), filepath.Join(a.repository, "deploy/chart"))
			if said, err := a.run("chart"); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
		}},
		{name: "an image that is named only", want: "linux/arm64: the index names it, but it is missing", spoil: func(t *testing.T, _ *actions, in store) {
			in.remove(t, "v1.2.3-static", "linux/arm64")
		}},
		{name: "a file too many", want: "> another", spoil: func(t *testing.T, a *actions, _ store) {
			if err := os.WriteFile(filepath.Join(a.releases(), "v1.2.3", "another"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	}
	platforms := strings.Split(pushed[1], ",")
	for _, p := range platforms {
		others := slices.DeleteFunc(slices.Clone(platforms), func(other string) bool { return other == p })
		faults = append(faults, fault{name: "no image with a shell for " + p, edit: [2]string{pushed[1], strings.Join(others, ",")}, want: "for " + p + ": missing"})
	}
	for arch, other := range map[string]string{"amd64": "arm64", "arm64": "amd64"} {
		faults = append(faults, fault{name: "no static image for " + arch, at: "static-image", want: "for linux/" + arch + ": missing", spoil: func(t *testing.T, a *actions, _ store) {
			program := filepath.Join(a.dir, "artifacts", "dist", "shell-operator-linux-"+other)
			command(t, filepath.Join(a.repository, "bin/tools/image"), "build", "--to", filepath.Join(a.dir, "artifacts", "image"), "--version", "v1.2.3",
				"--binary", "linux/"+other+"="+program)
		}})
	}

	t.Run("complete", func(t *testing.T) {
		t.Parallel()
		a, in := whole.copy(t, "", "")
		if said, err := a.jobs("image", "static-image", "chart", "github"); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if r, err := readRelease(filepath.Join(a.releases(), "v1.2.3")); err != nil || !r.Draft || r.Prerelease {
			t.Errorf("before it is known to be complete, it is %+v, %v", r, err)
		}
		a.wantsEachFile(t)
		if said, err := a.run("complete"); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if r, err := readRelease(filepath.Join(a.releases(), "v1.2.3")); err != nil || r.Draft {
			t.Errorf("it is %+v, %v", r, err)
		}
		for latest, tag := range map[string]string{"latest": "v1.2.3", "latest-static": "v1.2.3-static"} {
			if in.digest(latest) == "" || in.digest(latest) != in.digest(tag) {
				t.Errorf("%s is %q, and %s is %q", latest, in.digest(latest), tag, in.digest(tag))
			}
		}
		manifests, err := os.ReadFile(filepath.Join(a.releases(), "v1.2.3", "shell-operator.yaml"))
		if err != nil || !strings.Contains(string(manifests), "image: "+registryHost+"/"+repositoryName+":v1.2.3\n") {
			t.Errorf("the manifests name another image: %v\n%s", err, manifests)
		}
	})
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			a, in := whole.copy(t, f.edit[0], f.edit[1])
			for _, name := range []string{"image", "static-image", "chart", "github", "complete"} {
				if f.spoil != nil && (name == f.at || f.at == "" && name == "complete") {
					f.spoil(t, a, in)
				}
				if name == f.skip {
					continue
				}
				said, err := a.run(name)
				if name != "complete" && err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				if name == "complete" && (err == nil || !strings.Contains(said+err.Error(), f.want)) {
					t.Errorf("error %v, want %q in\n%s", err, f.want, said)
				}
			}
			if r, err := readRelease(filepath.Join(a.releases(), "v1.2.3")); f.skip != "github" && (err != nil || !r.Draft) {
				t.Errorf("it is published: %+v, %v", r, err)
			}
			if in.digest("latest")+in.digest("latest-static") != "" {
				t.Error("it is the latest")
			}
		})
	}
	t.Run("spoilt program", func(t *testing.T) {
		t.Parallel()
		a, _ := whole.copy(t, "", "")
		if err := os.WriteFile(filepath.Join(a.dir, "artifacts", "dist", "shell-operator-darwin-arm64"), []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := a.run("github"); err == nil || !strings.Contains(said, "shell-operator-darwin-arm64: FAILED") {
			t.Errorf("error %v in\n%s", err, said)
		}
		if _, err := readRelease(filepath.Join(a.releases(), "v1.2.3")); err == nil {
			t.Error("there is a release")
		}
	})
	t.Run("nobody logged in", func(t *testing.T) {
		t.Parallel()
		a, _ := whole.copy(t, "", "")
		for _, name := range []string{"image", "static-image", "chart"} {
			said, err := a.steps(name, func(s step) bool { return !strings.HasPrefix(s.Uses, "docker/login-action@") })
			if err == nil || !strings.Contains(said, "logged in") && !strings.Contains(said, "401 Unauthorized") {
				t.Errorf("%s: error %v in\n%s", name, err, said)
			}
		}
	})
}

// TestReleaseCandidate: it is complete like any release, but nobody gets it who did not ask for it.
func TestReleaseCandidate(t *testing.T) {
	t.Parallel()
	a, in := prepare(t, "v1.3.0-rc.1").copy(t, "", "")
	if said, err := a.jobs("image", "static-image", "chart", "github", "complete"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if r, err := readRelease(filepath.Join(a.releases(), "v1.3.0-rc.1")); err != nil || r.Draft || !r.Prerelease {
		t.Errorf("it is %+v, %v", r, err)
	}
	if in.digest("v1.3.0-rc.1") == "" || in.digest("latest")+in.digest("latest-static") != "" {
		t.Error("it is the latest, or not there")
	}
}

// TestReleaseOrder: a job that pushes waits for the tests, and the one that publishes for all.
func TestReleaseOrder(t *testing.T) {
	jobs := releaseWorkflow(t, "").Jobs
	var pushing []string
	for name, j := range jobs {
		if name == "test" || name == "build" || name == "complete" {
			continue
		}
		pushing = append(pushing, name)
		if !slices.Contains(j.Needs, "test") || !slices.Contains(j.Needs, "build") {
			t.Errorf("%s waits for %q only", name, j.Needs)
		}
	}
	slices.Sort(pushing)
	if needs := slices.Sorted(slices.Values(jobs["complete"].Needs)); !slices.Equal(needs, pushing) {
		t.Errorf("complete waits for %q, but %q push", needs, pushing)
	}
}

// wantsEachFile takes away one file of the draft after the other.
func (a *actions) wantsEachFile(t *testing.T) {
	t.Helper()
	draft := filepath.Join(a.releases(), "v1.2.3")
	entries, err := os.ReadDir(draft)
	// Four programs, their SBOMs, the chart, the manifests, the checksums.
	if err != nil || len(entries) != 11 {
		t.Fatalf("the draft has %d files, %v", len(entries), err)
	}
	for _, e := range entries {
		kept := filepath.Join(a.dir, "kept")
		if err := os.Rename(filepath.Join(draft, e.Name()), kept); err != nil {
			t.Fatal(err)
		}
		said, err := a.steps("complete", func(s step) bool {
			return s.Name == "no file is missing" || strings.HasPrefix(s.Uses, "actions/checkout@")
		})
		if err == nil || !strings.Contains(said, "< "+e.Name()+"\n") {
			t.Errorf("without %s: error %v in\n%s", e.Name(), err, said)
		}
		if err := os.Rename(kept, filepath.Join(draft, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *actions) releases() string { return filepath.Join(a.dir, "releases") }

func (a *actions) jobs(names ...string) (string, error) {
	for _, name := range names {
		if said, err := a.run(name); err != nil {
			return said, err
		}
	}
	return "", nil
}

func releaseWorkflow(t *testing.T, from string, to ...string) workflow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), ".github", "workflows", "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	if from != "" {
		if edited = strings.Replace(edited, from, strings.Join(to, ""), 1); edited == string(text) {
			t.Fatalf("release.yml has no %q", from)
		}
	}
	flow, err := readWorkflow(strings.ReplaceAll(edited, "ghcr.io", registryHost))
	if err != nil {
		t.Fatal(err)
	}
	return flow
}

// prepare runs the jobs that push nothing. Cases go on from its artifacts.
func prepare(t *testing.T, version string) *actions {
	t.Helper()
	a := &actions{flow: releaseWorkflow(t, ""), repository: smallRepository(t), dir: t.TempDir()}
	a.values = map[string]string{
		"github.ref_name": version, "github.repository": repositoryName, "github.actor": "robot", "github.token": "secret", "secrets.GITHUB_TOKEN": "secret",
		"!contains(github.ref_name, '-')": fmt.Sprint(!strings.Contains(version, "-")),
	}
	programs := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range standins {
		if err := os.Symlink(self, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	goProgram, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	// The cache of this machine is not cleaned: it is the tests' own.
	write(t, filepath.Join(programs, "go"), "#!/bin/sh\n[ \"$1\" = clean ] || exec "+goProgram+" \"$@\"\n", 0o755)
	a.env = []string{
		"PATH=" + programs + ":" + os.Getenv("PATH"), "GITHUB_REPOSITORY=" + repositoryName, "GITHUB_REF_NAME=" + version,
		"GORACE=atexit_sleep_ms=0", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local",
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		a.env = append(a.env, name+"="+strings.TrimSpace(string(out)))
	}
	if said, err := a.jobs("test", "build"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return a
}

// copy is a release of its own with the artifacts that are there, and its registry.
func (a *actions) copy(t *testing.T, from, to string) (*actions, store) {
	t.Helper()
	mine := *a
	mine.flow = releaseWorkflow(t, from, to)
	mine.dir = t.TempDir()
	if err := copyTree(filepath.Join(a.dir, "artifacts"), filepath.Join(mine.dir, "artifacts")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mine.releases(), 0o755); err != nil {
		t.Fatal(err)
	}
	const login = "robot:secret"
	cmd := exec.Command(tool(t, "registry"), login)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the registry: %v", err)
		}
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the registry did not start: %v", err)
	}
	in := store{proxy: "http://" + strings.TrimSpace(address), login: login}
	mine.env = append(slices.Clone(a.env), "HTTP_PROXY="+in.proxy, "HTTPS_PROXY="+in.proxy, "RELEASES="+mine.releases(), "CHART="+tool(t, "chart"))
	return &mine, in
}

// smallRepository has what a release uses, and a program that is built in no time.
func smallRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{"Makefile", "scripts/engine.sh", "testcluster/go.mod", ".github", "deploy/chart", "deploy/grafana", "deploy/image", "deploy/manifests", "deploy/prometheus"} {
		to := filepath.Join(dir, filepath.Dir(path))
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		command(t, "cp", "-a", filepath.Join(testenv.Root(), path), to)
	}
	for _, file := range []string{"deploy/chart/values.yaml", "deploy/manifests/shell-operator.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), strings.ReplaceAll(string(text), "ghcr.io", registryHost), 0o644)
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.com/small\n\ngo 1.26.0\n", 0o644)
	write(t, filepath.Join(dir, "cmd/shell-operator/main.go"), "package main\n\nvar version string\n\nfunc main() { println(version) }\n", 0o644)
	// Other tests are what these would run: all of them, and an image that a container engine has built.
	write(t, filepath.Join(dir, ".ci/run"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, "scripts/check-image.sh"), "#!/bin/sh\n[ \"$1\" ]\n", 0o755)
	for _, name := range []string{"chart", "dockerfile", "image", "registry", "actionlint"} {
		link := filepath.Join(dir, "bin/tools", name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(tool(t, name), link); err != nil {
			t.Fatal(err)
		}
	}
	// Older than the programs, so that make leaves them alone.
	for _, file := range []string{"tools/go.mod", "tools/go.sum"} {
		write(t, filepath.Join(dir, file), "", 0o644)
		if err := os.Chtimes(filepath.Join(dir, file), time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// digest is what a tag names, or empty.
func (s store) digest(tag string) string {
	_, header, err := s.ask(http.MethodHead, repositoryName+"/manifests/"+tag, "", nil)
	if err != nil {
		return ""
	}
	return header.Get("Docker-Content-Digest")
}

// remove takes the image for a platform away, which the index goes on to name.
func (s store) remove(t *testing.T, tag, platform string) {
	t.Helper()
	text, _, err := s.ask(http.MethodGet, repositoryName+"/manifests/"+tag, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	for _, d := range index.Manifests {
		if d.Platform["os"]+"/"+d.Platform["architecture"] == platform {
			if _, _, err := s.ask(http.MethodDelete, repositoryName+"/manifests/"+d.Digest, "", nil); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no image for %s in %s", platform, text)
}

// forgetSBOMs leaves the images in the index of a layout, and nothing else.
func forgetSBOMs(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]any
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	all := index["manifests"].([]any)
	if len(all) != 3 {
		t.Fatalf("the layout has %d parts, want the image and two SBOMs", len(all))
	}
	index["manifests"] = all[:1]
	if text, err = json.Marshal(index); err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text), 0o600)
}
