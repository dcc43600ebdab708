// Package docs checks what can be checked of the documentation: that links lead somewhere, and that configurations
// which it shows are valid.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// pages returns the text of every Markdown file below root, by its path.
func pages(t *testing.T, root string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	block   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")
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
	all := pages(t, "..")
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

func TestConfigurations(t *testing.T) {
	options := wire.ConfigOptions{
		JQ: jq.NewCompiler(jq.Options{}),
		CheckCrontab: func(text string) error {
			_, err := schedule.Parse(text)
			return err
		},
	}
	count := 0
	for _, dir := range []string{"reference", "how-to", "tutorial", "explanation"} {
		for path, text := range pages(t, dir) {
			for _, m := range block.FindAllStringSubmatch(text, -1) {
				if m[1] != "yaml" || !strings.HasPrefix(m[2], "configVersion: v1\n") {
					continue
				}
				count++
				_, warnings, err := wire.ParseConfig(path, path, []byte(m[2]), options)
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				for _, w := range warnings {
					t.Errorf("%s: a warning about an example: %s", path, w)
				}
			}
		}
	}
	if count == 0 {
		t.Error("no configurations found")
	}
}
