package main

import "fmt"

// nearest returns the name that is most like text, and whether it is like it at all: at most a third of it, or two bytes, differ.
func nearest(text string, names []string) (string, bool) {
	best, least := "", max(len(text)/3, 2)+1
	for _, name := range names {
		if d := editDistance(text, name); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}

// didYouMean is the end of a message about an unknown name.
func didYouMean(text string, names []string) string {
	if name, ok := nearest(text, names); ok {
		return fmt.Sprintf(": did you mean %s?", name)
	}
	return ""
}

// editDistance is the number of bytes to insert, remove or replace to get from a to b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
