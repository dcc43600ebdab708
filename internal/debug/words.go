package debug

import (
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Count is a number with its noun.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// lineLimit is the length of the largest OneLine.
const lineLimit = 500

// OneLine keeps lists readable: errors may have many lines. The rest of a long one is in the run.
func OneLine(text string) string {
	return history.Cut(strings.Join(strings.FieldsFunc(text, isLineEnd), " "), lineLimit)
}

func isLineEnd(r rune) bool { return r == '\n' || r == '\r' }

// rank sorts what is true first.
func rank(is bool) int {
	if is {
		return 0
	}
	return 1
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func short(d time.Duration) string { return history.Duration(d.Round(100 * time.Millisecond)).String() }
