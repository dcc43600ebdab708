package httpserver

import "strings"

// maxText is the length of the longest names in Kubernetes.
const maxText = 253

// Text bounds a text of a client before it is logged or kept.
func Text(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
