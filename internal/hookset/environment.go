package hookset

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/sdk"
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

// WithLibraries unpacks the libraries for hooks in bash and Python below dir, and returns the environment of hooks with the variables by
// which they find them. SHELL_LIB and FRAMEWORK_DIR of the user name another library; directories in PYTHONPATH come before ours.
func WithLibraries(env []string, dir string) ([]string, error) {
	shellLib, err := sdk.UnpackShell(filepath.Join(dir, "shell"))
	if err != nil {
		return nil, err
	}
	modules, err := sdk.UnpackPython(filepath.Join(dir, "python"))
	if err != nil {
		return nil, err
	}
	if path := process.Variable(env, "PYTHONPATH"); path != "" {
		modules = path + string(filepath.ListSeparator) + modules
	}
	for _, v := range []struct{ name, value string }{
		{"SHELL_LIB", cmp.Or(process.Variable(env, "SHELL_LIB"), shellLib)},
		{"FRAMEWORK_DIR", cmp.Or(process.Variable(env, "FRAMEWORK_DIR"), filepath.Dir(shellLib))},
		{"PYTHONPATH", modules},
	} {
		env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, v.name+"=") })
		env = append(env, v.name+"="+v.value)
	}
	return env, nil
}
