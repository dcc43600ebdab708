package wire

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestMalformed reads testdata/malformed: a line that begins with ">" is what a hook hands back, in quotes where it has
// characters that cannot be shown; what follows is the error, or what is made of it nevertheless. -update rewrites that.
func TestMalformed(t *testing.T) {
	filters := jq.NewCompiler(jq.Options{})
	parsers := map[string]func(text []byte) (warnings, result any, err error){
		"config": func(text []byte) (any, any, error) {
			h, warnings, err := ParseConfig("hook.sh", "/hooks/hook.sh", text, testOptions())
			return warnings, h.Name, err
		},
		"patches": func(text []byte) (any, any, error) {
			patches, err := ParsePatches(text, filters)
			return nil, len(patches), err
		},
		"metrics": func(text []byte) (any, any, error) {
			metrics, warnings, err := ParseMetrics(text)
			return warnings, len(metrics), err
		},
		"admission": func(text []byte) (any, any, error) {
			answer, err := ParseAdmission(text)
			return nil, answer, err
		},
		"conversion": func(text []byte) (any, any, error) {
			answer, err := ParseConversion(text)
			return nil, answer, err
		},
		"http": func(text []byte) (any, any, error) {
			answer, err := ParseHTTP(text)
			return nil, answer, err
		},
	}
	rows := 0
	for kind, parse := range parsers {
		path := filepath.Join("testdata", "malformed", kind+".txt")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var updated bytes.Buffer
		for row := range strings.SplitSeq("\n"+strings.TrimSpace(string(text)), "\n> ") {
			if row == "" {
				continue
			}
			rows++
			line, want, _ := strings.Cut(row, "\n")
			input := unquoted(line)
			warnings, result, err := parse([]byte(input))
			got := fmt.Sprintf("accepted: %+v %+v", result, warnings)
			if err != nil {
				got = err.Error()
				checkError(t, kind, line, got)
			}
			got = "  " + strings.ReplaceAll(strings.TrimSpace(got), "\n", "\n  ")
			fmt.Fprintf(&updated, "> %s\n%s\n\n", line, got)
			if want = strings.TrimRight(want, "\n "); !golden.Update() && got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", kind, line, got, want)
			}
		}
		if golden.Update() {
			if err := os.WriteFile(path, bytes.TrimSuffix(updated.Bytes(), []byte("\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if rows < 200 {
		t.Errorf("only %d rows", rows)
	}
}

func unquoted(line string) string {
	if text, err := strconv.Unquote(line); err == nil {
		return text
	}
	return line
}

// checkError checks what every error has to have: a place, a length that can be read, and text that can be printed.
func checkError(t *testing.T, kind, line, text string) {
	t.Helper()
	place := map[string]string{
		"config": `"hook.sh"`, "patches": "document", "metrics": "operation", "admission": "$ADMISSION_RESPONSE_PATH",
		"conversion": "$CONVERSION_RESPONSE_PATH",
		"http":       "$HTTP_RESPONSE_PATH",
	}[kind]
	if !strings.Contains(text, place) {
		t.Errorf("%s: %s: the error does not say where: %s", kind, line, text)
	}
	if len(text) > 2000 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b") {
		t.Errorf("%s: %s: the error cannot be read: %.300q", kind, line, text)
	}
}
