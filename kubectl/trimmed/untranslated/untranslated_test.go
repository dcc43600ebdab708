package untranslated

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTexts: the English catalogues of kubectl translate every text to itself, and no text has a plural.
func TestTexts(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubectl").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	message := regexp.MustCompile(`(?m)^(msgid|msgid_plural|msgstr(?:\[\d\])?) ((?:".*"\n?)+)`)
	for _, language := range []string{"default", "en_US"} {
		text, err := os.ReadFile(filepath.Join(dir, "pkg/util/i18n/translations/kubectl", language, "LC_MESSAGES/k8s.po"))
		if err != nil {
			t.Fatal(err)
		}
		id, n := "", 0
		for _, m := range message.FindAllStringSubmatch(string(text), -1) {
			value := ""
			for line := range strings.Lines(m[2]) {
				part, err := strconv.Unquote(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				value += part
			}
			switch {
			case m[1] == "msgid":
				id, n = value, n+1
			case m[1] == "msgstr" && id != "" && value != id:
				t.Errorf("%s: %q is translated to %q", language, id, value)
			}
		}
		if n < 100 {
			t.Errorf("%s has %d texts", language, n)
		}
	}
	plural := regexp.MustCompile(`i18n\.(T|Errorf)\((?:"[^"]*"|` + "`[^`]*`" + `), `)
	err = filepath.WalkDir(filepath.Join(dir, "pkg/cmd"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if m := plural.Find(text); m != nil {
			t.Errorf("%s has a text with a plural: %s", path, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
