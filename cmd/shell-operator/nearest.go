package main

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// nearest returns the name that is most like text, and whether it is like it at all: at most a third of it, or two bytes, differ.
func nearest(text string, names []string) (string, bool) {
	best, least := "", max(len(text)/3, 2)+1
	for _, name := range names {
		if d := spelling.Distance(text, name); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}

// didYouMean is the end of a message about a name that is not known.
func didYouMean(text string, names []string) string {
	if name, ok := nearest(text, names); ok {
		return fmt.Sprintf(": did you mean %s?", name)
	}
	return ""
}
