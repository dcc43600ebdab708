// Package docs checks the documentation: that links have targets, and that its configurations,
// operations and metrics are valid.
//
// The first words of a fenced block are its kind: "yaml patch" and "json patch" are files for $KUBERNETES_PATCH_PATH, "json metrics" is one
// for $METRICS_PATH; "json admission", "json conversion" and "json http" are answers, and "yaml result" is a result file. YAML that
// begins with configVersion is a configuration. test/tutorial reads all other blocks, and checks that none is left over.
package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/wire"
	"github.com/shell-operator/shell-operator/sdk"
)

// pages returns the text of every page below root, by its path.
func pageTexts(t *testing.T, root string) map[string]string {
	t.Helper()
	below, err := pages.Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, text := range below {
		texts[filepath.Join(root, name)] = text
	}
	return texts
}

var (
	block   = regexp.MustCompile("(?ms)^```([^\n`]*)\n(.*?)^```")
	code    = regexp.MustCompile("`[^`]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	symbols = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	all := pageTexts(t, "..")
	for path, text := range all {
		prose := code.ReplaceAllString(block.ReplaceAllString(text, ""), "code")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: link to %s: that page has no such heading", path, m[1])
			}
		}
	}
}

// TestThreatModel: each test that the threat model names is in the package that it names, and each row of what is checked names one.
func TestThreatModel(t *testing.T) {
	text := pageTexts(t, "explanation")["explanation/security.md"]
	named := regexp.MustCompile("`((?:internal|test)/[a-z/]+|deploy)`|\\b(Test[A-Z]\\w+)")
	sources := map[string]string{}
	found, pkg := 0, ""
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if m[2] == "" {
			pkg = m[1]
			continue
		}
		if found++; sources[pkg] == "" {
			files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[pkg] += string(source)
			}
		}
		if !strings.Contains(sources[pkg], "func "+m[2]+"(") {
			t.Errorf("the package %s has no %s", pkg, m[2])
		}
	}
	if found < 80 {
		t.Errorf("only %d tests are named", found)
	}
	checked := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			checked = false
		case strings.HasSuffix(line, "| checked by |"), strings.HasSuffix(line, "| kept by |"):
			checked = true
		case checked && !strings.HasPrefix(line, "|---"):
			if cells := strings.Split(strings.Trim(line, "|"), "|"); !strings.Contains(cells[len(cells)-1], "Test") {
				t.Errorf("no test is named in %s", line)
			}
		}
	}
}

// examples returns the blocks of all pages that are of one of the kinds.
func examples(t *testing.T, kinds ...string) (found []pages.Block) {
	t.Helper()
	all, err := pages.All("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if slices.Contains(kinds, b.Kind) {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		t.Errorf("no page has a block of one of the kinds %q", kinds)
	}
	return found
}

func TestOperations(t *testing.T) {
	shown := map[effect.Operation]bool{}
	for _, e := range examples(t, "yaml patch", "json patch") {
		patches, err := wire.ParsePatches([]byte(e.Text), jq.NewCompiler(jq.Options{}))
		if err != nil || len(patches) == 0 {
			t.Errorf("%s:%d: %d operations, error %v, in\n%s", e.Page, e.Line, len(patches), err, e.Text)
		}
		for _, p := range patches {
			shown[p.Operation] = true
		}
	}
	reference := pageTexts(t, "reference")["reference/kubernetes-operations.md"]
	for _, word := range effect.Operations() {
		if !shown[effect.ParseOperation(word)] && !strings.Contains(reference, "| `"+word+"` |") {
			t.Errorf("%s is not documented", word)
		}
	}
}

func TestMetrics(t *testing.T) {
	for _, e := range examples(t, "json metrics") {
		metrics, warnings, err := wire.ParseMetrics([]byte(e.Text))
		if err != nil || len(warnings) > 0 || len(metrics) == 0 {
			t.Errorf("%s:%d: %d operations, error %v, warnings %v, in\n%s", e.Page, e.Line, len(metrics), err, warnings, e.Text)
		}
	}
}

func TestResults(t *testing.T) {
	for _, e := range examples(t, "yaml result") {
		r, err := wire.ParseResult([]byte(e.Text), wire.ResultRules{
			Failed:   strings.Contains(e.Text, "retryAfter") || strings.Contains(e.Text, "giveUp"),
			Contains: func(string, string) bool { return true },
		})
		if err != nil || r.Message == "" && r.RequeueAfter.Duration == 0 && r.RetryAfter == nil && r.GiveUp == "" {
			t.Errorf("%s:%d: error %v, in\n%s", e.Page, e.Line, err, e.Text)
		}
	}
}

// TestAnswers parses responses of hooks as the operator does. The parser ignores unknown keys, so the test checks
// the keys too.
func TestAnswers(t *testing.T) {
	for kind, keys := range map[string][]string{
		"json admission":  {"allowed", "message", "warnings", "patch"},
		"json conversion": {"convertedObjects", "failedMessage"},
		"json http":       {"status", "headers", "body", "bodyBase64", "json"},
	} {
		for _, e := range examples(t, kind) {
			var err error
			switch kind {
			case "json admission":
				_, err = wire.ParseAdmission([]byte(e.Text))
			case "json conversion":
				_, err = wire.ParseConversion([]byte(e.Text))
			default:
				_, err = wire.ParseHTTP([]byte(e.Text))
			}
			if err != nil {
				t.Errorf("%s:%d: %v", e.Page, e.Line, err)
				continue
			}
			var shown map[string]any
			if err := json.Unmarshal([]byte(e.Text), &shown); err != nil {
				t.Errorf("%s:%d: %v", e.Page, e.Line, err)
			}
			for key := range shown {
				if !slices.Contains(keys, key) {
					t.Errorf("%s:%d: a response has no key %q", e.Page, e.Line, key)
				}
			}
		}
	}
}

// TestConfigurations parses each configuration that a page shows, by itself or in a complete hook, which it calls with
// --config.
func TestConfigurations(t *testing.T) {
	library, err := sdk.UnpackShell(filepath.Join(t.TempDir(), "shell"))
	if err != nil {
		t.Fatal(err)
	}
	python, err := filepath.Abs(filepath.Join("..", "sdk", "python"))
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "SHELL_LIB="+library, "FRAMEWORK_DIR="+filepath.Dir(library), "PYTHONPATH="+python,
		"PYTHONDONTWRITEBYTECODE=1")
	options := wire.ConfigOptions{JQ: jq.NewCompiler(jq.Options{}), CheckCrontab: func(text string) error {
		_, err := schedule.Parse(text)
		return err
	}}
	all, err := pages.All("..")
	if err != nil {
		t.Fatal(err)
	}
	dir, hooks, plain := t.TempDir(), 0, 0
	for _, b := range all {
		config := []byte(b.Text)
		switch {
		case b.Hidden:
			continue
		case strings.HasPrefix(b.Text, "#!"):
			hooks++
			file := filepath.Join(dir, fmt.Sprintf("hook-%d", hooks))
			if err := os.WriteFile(file, config, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(file, "--config")
			cmd.Env = env
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if config, err = cmd.Output(); err != nil {
				t.Errorf("%s:%d: the config call of a hook fails: %v\n%s", b.Page, b.Line, err, stderr.String())
				continue
			}
		case b.Kind == "yaml" && strings.HasPrefix(b.Text, "configVersion: v1\n"):
			plain++
		default:
			continue
		}
		if _, warnings, err := wire.ParseConfig(b.Page, b.Page, config, options); err != nil || len(warnings) > 0 {
			t.Errorf("%s:%d: a configuration: %v, warnings %v", b.Page, b.Line, err, warnings)
		}
	}
	if hooks < 5 || plain < 5 {
		t.Errorf("only %d hooks and %d configurations found", hooks, plain)
	}
}

// TestKubernetesVersions: the page names the versions that the Makefile and the module of the test cluster have, and no others.
func TestKubernetesVersions(t *testing.T) {
	var want []string
	for file, expr := range map[string]string{
		filepath.Join("..", "testcluster", "go.mod"): `(?m)^\tk8s\.io/kubernetes (v\S+)$`,
		filepath.Join("..", "Makefile"):              `(?m)^OLDER := (.*)$`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(expr).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no version", file)
		}
		want = append(want, strings.Fields(string(m[1]))...)
	}
	page := pageTexts(t, "how-to")["how-to/upgrade.md"]
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^\| (1\.\d+) \| .* the control plane of (v\S+),`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[2], "v"+m[1]+".") {
			t.Errorf("the row of %s names %s", m[1], m[2])
		}
		got = append(got, m[2])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the page has %q, tested are %q", got, want)
	}
}
