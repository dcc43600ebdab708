package lint

import (
	"strings"
)

// Place is where a line and column of a hook's --config output stand in the hook's file. Most hooks carry their
// configuration as text, so the line is there; where it is not, or not only once, the place is 0.
func Place(s Source, output []byte, line, column int) (int, int) {
	if s.isBinary() {
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

// neighbours counts how many lines before and after two lines are equal too.
func neighbours(a []string, i int, b []string, j int) (n int) {
	for _, step := range []int{-1, 1} {
		for k := step; i+k >= 0 && i+k < len(a) && j+k >= 0 && j+k < len(b); k += step {
			if strings.TrimSpace(a[i+k]) != strings.TrimSpace(b[j+k]) {
				break
			}
			n++
		}
	}
	return n
}
