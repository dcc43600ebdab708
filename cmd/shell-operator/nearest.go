package main

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// didYouMean is the end of a message about an unknown name.
func didYouMean(text string, names []string) string {
	if name := spelling.Nearest(text, names); name != "" {
		return fmt.Sprintf(": did you mean %s?", name)
	}
	return ""
}
