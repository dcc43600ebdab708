// Package spelling finds the name that was meant by a mistyped one.
package spelling

import (
	"slices"
	"strings"
)

// Nearest is the name that is most like text: at most two bytes, and half of text, differ, or else the first one that contains it, as
// executionTimeout contains timeout. It is "" for none. Upper and lower case are the same.
func Nearest(text string, names []string) string {
	best, least := "", min(len(text)/2, 2)+1
	for _, name := range names {
		if d := Distance(strings.ToLower(text), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	part := strings.TrimSuffix(strings.ToLower(text), "s")
	within := slices.IndexFunc(names, func(name string) bool { return strings.Contains(strings.ToLower(name), part) })
	if best == "" && len(part) > 2 && within >= 0 {
		return names[within]
	}
	return best
}

// Distance is the number of bytes to insert, remove, replace or swap with the next one to get from a to b.
func Distance(a, b string) int {
	above, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			replaced := row[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(replaced, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], above[j-1]+1)
			}
		}
		above, row = row, next
	}
	return row[len(b)]
}
