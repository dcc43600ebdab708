package hookset

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/sdk/shell"
)

// alwaysInherited are variables without which hooks find neither programs nor the cluster nor their library. None of
// them is a secret.
var alwaysInherited = []string{
	"PATH", "HOME", "TMPDIR", "TZ", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "SHELL_LIB", "FRAMEWORK_DIR",
}

// ownCredentials are variables with which the operator authenticates at the receiver of its traces.
var ownCredentials = []string{"TRACING_OTLP_AUTH_TOKEN", "OTEL_*HEADERS"}

// Inherited is the part of an environment that hooks get. Patterns are names, possibly with * and ?, and those that begin
// with ! take away; the last one that fits counts. No patterns mean everything. If all patterns take away, the rest stays.
//
// Credentials of the operator's own traces are not in "everything", nor in *: a pattern has to name them.
func Inherited(env, patterns []string) []string {
	startsWithAll := !slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") })
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		credential := slices.ContainsFunc(ownCredentials, func(p string) bool { fits, _ := path.Match(p, name); return fits })
		wanted := startsWithAll && !credential || slices.Contains(alwaysInherited, name)
		for _, p := range patterns {
			pattern, without := strings.CutPrefix(p, "!")
			// cmd has checked the patterns
			if fits, _ := path.Match(noPath(pattern), noPath(name)); fits && !(credential && strings.Trim(pattern, "*") == "") {
				wanted = !without
			}
		}
		if wanted {
			kept = append(kept, kv)
		}
	}
	return kept
}

// noPath makes a slash one character among others: a name of a variable may have it, and * stands for it, too.
func noPath(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

// UnpackLibrary unpacks the library for hooks in bash and returns the variables by which they find it. Who has set one
// of them means another library.
func UnpackLibrary(env []string, dir string) ([]string, error) {
	path, err := shell.Unpack(dir)
	if err != nil {
		return nil, err
	}
	variables := []string{"SHELL_LIB=" + path, "FRAMEWORK_DIR=" + filepath.Dir(path)}
	return slices.DeleteFunc(variables, func(own string) bool {
		name, _, _ := strings.Cut(own, "=")
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && len(kv) > len(name)+1 })
	}), nil
}
