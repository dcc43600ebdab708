package recording

import "strings"

// Compared returns two results as trees of JSON, without what may differ between equal runs: their output and texts of errors. How they
// ended is left out if in both the process succeeded and the run failed: a replay has no API server, so that is known of both, and no more.
func Compared(recorded, now Result) (before, after any) {
	recorded.Output, now.Output, recorded.Error, now.Error = nil, nil, "", ""
	if isRejected(recorded.Exit) && isRejected(now.Exit) {
		recorded.Exit, now.Exit = "", ""
	}
	return treeOf(recorded), treeOf(now)
}

func isRejected(exit string) bool { return strings.HasPrefix(exit, "exit status 0,") }

// cut shortens a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " …"
}
