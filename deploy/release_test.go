package deploy

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// TestRelease runs scripts/release.sh without PUBLISH=1 on files that stand for the files of a release.
func TestRelease(t *testing.T) {
	for _, row := range []struct {
		name, version string
		spoil         func(t *testing.T, dist, layout string)
		fails         string
	}{
		{name: "complete", version: "v1.2.3"},
		{name: "candidate", version: "v1.3.0-rc.1"},
		{name: "no version", version: "main", fails: "not a semantic version"},
		{name: "missing file", version: "v1.2.3", fails: "< shell-operator-darwin-arm64\n", spoil: func(t *testing.T, dist, _ string) {
			remove(t, filepath.Join(dist, "shell-operator-darwin-arm64"))
		}},
		{name: "unexpected file", version: "v1.2.3", fails: "> core\n", spoil: func(t *testing.T, dist, _ string) {
			write(t, filepath.Join(dist, "core"), "", 0o644)
		}},
		{name: "changed file", version: "v1.2.3", fails: "shell-operator-linux-amd64: FAILED", spoil: func(t *testing.T, dist, _ string) {
			write(t, filepath.Join(dist, "shell-operator-linux-amd64"), "changed", 0o644)
		}},
		{name: "file without checksum", version: "v1.2.3", fails: "does not cover", spoil: func(t *testing.T, dist, _ string) {
			text := read(t, filepath.Join(dist, "SHA256SUMS"))
			_, rest, _ := strings.Cut(text, "\n")
			write(t, filepath.Join(dist, "SHA256SUMS"), rest, 0o644)
		}},
		{name: "no image", version: "v1.2.3", fails: "run make image", spoil: func(t *testing.T, _, layout string) {
			remove(t, filepath.Join(layout, "index.json"))
		}},
		{name: "no notes", version: "v1.2.4", fails: `no section "## v1.2.4"`},
		{name: "empty notes", version: "v1.2.2", fails: `no section "## v1.2.2"`},
		{name: "image of another version", version: "v1.2.3", fails: "another version", spoil: func(t *testing.T, _, layout string) {
			write(t, filepath.Join(layout, "index.json"), `{"org.opencontainers.image.ref.name":"v1.2.2"}`, 0o644)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dist, layout := release(t, row.version)
			if row.spoil != nil {
				row.spoil(t, dist, layout)
			}
			written := t.TempDir()
			changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
			write(t, changelog, "# Changelog\n\n## Unreleased\n\n- Next.\n\n## v1.2.3 (2026-11-22)\n\n- First.\n\n## v1.2.2\n\n", 0o644)
			cmd := exec.Command(filepath.Join(test.Root(), "scripts", "release.sh"))
			// Nothing but the programs of a bare machine: a check that called docker, helm or gh would fail.
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "VERSION=" + row.version, "DIST=" + dist, "LAYOUT=" + layout, "CHANGELOG=" + changelog,
				"TMPDIR=" + written}
			out, err := cmd.CombinedOutput()
			if row.fails != "" {
				if err == nil || !strings.Contains(string(out), row.fails) || strings.Contains(string(out), "\n+ ") {
					t.Errorf("error %v, want %q before any step in\n%s", err, row.fails, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := strings.NewReplacer(dist, "DIST", layout, "LAYOUT").Replace(string(out))
			got = regexp.MustCompile(regexp.QuoteMeta(written)+`/tmp\.\w+`).ReplaceAllString(got, "TMP")
			golden.Compare(t, filepath.Join("testdata", "release-"+row.version+".txt"), got)
		})
	}
}

// TestVerifyPage: the commands that the page shows for signatures are those that a release verifies itself with.
func TestVerifyPage(t *testing.T) {
	steps := read(t, filepath.Join("testdata", "release-v1.2.3.txt"))
	page := strings.ReplaceAll(read(t, filepath.Join(test.Root(), "docs", "how-to", "upgrade.md")), "\\\n", "")
	shown := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^cosign .*`).FindAllString(page, -1) {
		command, _, _ := strings.Cut(line, " | ")
		command = strings.Join(strings.Fields(command), " ")
		shown[command] = true
		if !strings.Contains(steps, "\n+ "+command+"\n") {
			t.Errorf("no step of a release is %q", command)
		}
	}
	if verified := regexp.MustCompile(`(?m)^\+ cosign verify`).FindAllString(steps, -1); len(shown) != len(verified) {
		t.Errorf("the page shows %d commands, a release verifies %d signatures", len(shown), len(verified))
	}
}

// release writes files with the names of a release.
func release(t *testing.T, version string) (dist, layout string) {
	t.Helper()
	dist, layout = t.TempDir(), t.TempDir()
	wheel, err := exec.Command("../scripts/build-wheel.py", "--name", version).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"shell-operator-" + strings.TrimPrefix(version, "v") + ".tgz", strings.TrimSpace(string(wheel)),
		"third-party-licenses.txt"}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
		names = append(names, "shell-operator-"+platform, "shell-operator-"+platform+".cdx.json")
	}
	slices.Sort(names)
	var sums strings.Builder
	for _, name := range names {
		write(t, filepath.Join(dist, name), name, 0o644)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(name)), name)
	}
	write(t, filepath.Join(dist, "SHA256SUMS"), sums.String(), 0o644)
	write(t, filepath.Join(layout, "index.json"), `{"org.opencontainers.image.ref.name": "`+version+`"}`, 0o644)
	return dist, layout
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestInstall types the commands of README on the files of a release: what they fetch is there under that name, and the program runs.
func TestInstall(t *testing.T) {
	notShort(t)
	steps := read(t, filepath.Join("testdata", "release-v1.2.3.txt"))
	_, section, _ := strings.Cut(read(t, filepath.Join(test.Root(), "README.md")), "\n## Install\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("README has no commands to install it")
	}
	dist, _ := release(t, "v1.2.3")
	program := read(t, testenv.Binary(t))
	write(t, filepath.Join(dist, "shell-operator-linux-amd64"), program, 0o644)
	for _, published := range []string{"ghcr.io/shell-operator/shell-operator:latest ",
		"ghcr.io/shell-operator/shell-operator/charts/shell-operator"} {
		if !strings.Contains(steps, published) || !strings.Contains(block, strings.TrimSpace(published)) {
			t.Errorf("%s is not published, or not in README", published)
		}
	}
	dir, bin := t.TempDir(), t.TempDir()
	// curl fetches a file of the release; docker and helm would need a registry.
	write(t, filepath.Join(bin, "curl"), `#!/bin/sh
[ "$1" = -fLO ] || exit 2
case $2 in https://github.com/shell-operator/shell-operator/releases/latest/download/*) cp "`+dist+`/${2##*/}" . ;; *) exit 22 ;; esac
`, 0o755)
	write(t, filepath.Join(bin, "docker"), "#!/bin/sh\nfor last; do :; done\nexec shell-operator \"$last\" --help >/dev/null\n", 0o755)
	write(t, filepath.Join(bin, "helm"), "#!/bin/sh\n[ \"$1 $2\" = 'install my-operator' ]\n", 0o755)
	cmd := exec.Command("bash", "-eux", "-c", strings.ReplaceAll(block, "/usr/local/bin", bin)+
		"shell-operator version\n")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "shell-operator dev\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
