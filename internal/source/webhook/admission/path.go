package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/event"
)

// root is the prefix of all paths.
const root = "/hooks/"

// pathOf is the path of the reviews of a binding:
//
//	/hooks/validating/<hook>/<name of the binding>
//	/hooks/mutating/<hook>/<name of the binding>
//
// The API server accepts only segments that are DNS subdomains. Other characters of the hook's name are replaced, and a
// part of the name's hash makes the result unique.
func pathOf(hookName string, typ event.Type, binding string) string {
	kind := "validating/"
	if typ == event.Mutating {
		kind = "mutating/"
	}
	return root + kind + hookPath(hookName) + "/" + binding
}

var unfit = regexp.MustCompile(`[^a-z0-9/]+`)

func hookPath(name string) string {
	segments := strings.Split(name, "/")
	if !slices.ContainsFunc(segments, func(s string) bool { return len(validation.IsDNS1123Subdomain(s)) > 0 }) {
		return name
	}
	segments = strings.Split(unfit.ReplaceAllString(strings.ToLower(name), "-"), "/")
	for i, s := range segments {
		segments[i] = strings.Trim(s[:min(len(s), 200)], "-")
	}
	segments = slices.DeleteFunc(segments, func(s string) bool { return s == "" })
	hash := sha256.Sum256([]byte(name))
	return strings.TrimPrefix(strings.Join(segments, "/")+"-"+hex.EncodeToString(hash[:4]), "-")
}

// byName returns the path without the hook.
func byName(path string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, root), "/")
	return root + kind + "/" + rest[strings.LastIndex(rest, "/")+1:]
}

var (
	capital    = regexp.MustCompile(`[A-Z]`)
	legacyText = regexp.MustCompile(`[^a-z0-9/-]`)
	hyphens    = regexp.MustCompile(`-+`)
)

// legacyPath is the path that upstream registers.
func legacyPath(binding string) string {
	id := strings.ToLower(capital.ReplaceAllString(binding, "-$0"))
	return root + hyphens.ReplaceAllString(legacyText.ReplaceAllString(id, "-"), "-")
}
