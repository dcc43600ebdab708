package lint

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Place maps a line and column of a hook's --config output to the hook's file. Most hooks contain their configuration as
// text, so the line is there, or the text around it if the line itself has expansions. Where it is not, or is ambiguous, the place is 0.
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
	if best < 0 {
		return between(printed, line-1, written, column)
	}
	if same {
		return 0, 0
	}
	shift := strings.Index(written[best], text) - strings.Index(printed[line-1], text)
	return best + 1, max(column+shift, 0)
}

// between finds a line that is not written as it is printed, by the equal lines around it: a heredoc with expansions. Only the text before
// the expansion has a column.
func between(printed []string, at int, written []string, column int) (int, int) {
	best, least, same := -1, 0, false
	for i, candidate := range written {
		if !strings.ContainsAny(candidate, "$`\\") {
			continue
		}
		switch n := neighbours(printed, at, written, i); {
		case n > least:
			best, least, same = i, n, false
		case n == least:
			same = true
		}
	}
	if best < 0 || same {
		return 0, 0
	}
	shift := indentation(written[best]) - indentation(printed[at])
	if literal := strings.IndexAny(written[best], "$`\\"); column+shift > literal+1 {
		return best + 1, literal + 1
	}
	return best + 1, max(column+shift, 0)
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

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
var outputLine = regexp.MustCompile(`(\bin lines? |^the output [^:]*: line )(\d+)(?:( and )(\d+))?`)

// InFile rewrites the lines of the output that a problem mentions to lines of the hook's file. Lines without a known place are
// marked as lines of the output.
func InFile(s script.Source, output []byte, problem string) string {
	return outputLine.ReplaceAllStringFunc(problem, func(mention string) string {
		m := outputLine.FindStringSubmatch(mention)
		first, _ := strconv.Atoi(m[2])
		line, _ := Place(s, output, first, 1)
		second, last := 0, 0
		if m[4] != "" {
			second, _ = strconv.Atoi(m[4])
			last, _ = Place(s, output, second, 1)
		}
		if line == 0 || second > 0 && last == 0 {
			return mention + " of the output"
		}
		mention = m[1] + strconv.Itoa(line)
		if second > 0 {
			mention += m[3] + strconv.Itoa(last)
		}
		return mention
	})
}
