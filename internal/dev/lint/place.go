package lint

import (
	"regexp"
	"strings"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Place maps a line and column of a hook's --config output to the hook's file. Most hooks contain their configuration as
// text, so the line is there. Where it is not, because it has expansions, or is ambiguous, the place is 0.
func Place(s script.Source, output []byte, line, column int) (int, int) {
	if s.IsBinary() {
		return 0, 0
	}
	printed := strings.Split(string(output), "\n")
	written := strings.Split(string(s.Text), "\n")
	if line < 1 || line > len(printed) || strings.TrimSpace(printed[line-1]) == "" {
		return 0, 0
	}
	text := strings.TrimSpace(printed[line-1])
	best, least, same := -1, -1, false
	for i, candidate := range written {
		if !strings.Contains(candidate, text) {
			continue
		}
		switch n := neighbours(printed, line-1, written, i); {
		case n > least:
			best, least, same = i, n, false
		case n == least:
			same = true
		}
	}
	if best < 0 || same {
		return 0, 0
	}
	shift := strings.Index(written[best], text) - strings.Index(printed[line-1], text)
	return best + 1, max(column+shift, 0)
}

// neighbours counts the equal lines around two lines; blank ones do not count.
func neighbours(a []string, i int, b []string, j int) (n int) {
	for _, step := range []int{-1, 1} {
		for k := step; i+k >= 0 && i+k < len(a) && j+k >= 0 && j+k < len(b); k += step {
			if strings.TrimSpace(a[i+k]) != strings.TrimSpace(b[j+k]) {
				break
			}
			if strings.TrimSpace(a[i+k]) != "" {
				n++
			}
		}
	}
	return n
}

// outputLine is how problems mention lines of the output.
var outputLine = regexp.MustCompile(`\bin lines? \d+(?: and \d+)?`)

// OfOutput marks the lines that a problem mentions as lines of the output, because the place of the finding is one of the file.
func OfOutput(problem string) string { return outputLine.ReplaceAllString(problem, "$0 of the output") }
