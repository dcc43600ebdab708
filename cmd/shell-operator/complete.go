package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// logLevels are the values of --log-level and of the parameter log.level.
var logLevels = []string{"trace", "debug", "info", "warn", "error", "fatal"}

// completeSettings registers the values of settings with few values, and settings that are paths.
func completeSettings(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"log-level":                         logLevels,
		"log-type":                          {"text", "json", "color"},
		"record":                            recordModes,
		"hook-home":                         homes,
		"validating-webhook-failure-policy": {"Fail", "Ignore"},
	} {
		// It fails only for flags that do not exist, or that are registered already.
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, flag := range []string{"hooks-dir", "tmp-dir", "run-dir", "jq-library-path"} {
		_ = root.MarkPersistentFlagDirname(flag)
	}
	_ = root.RegisterFlagCompletionFunc("kube-context", completeContexts)
	_ = root.MarkPersistentFlagFilename(configFileFlag, "yaml", "yml")
}

// completeContexts returns the contexts of the kubeconfig, without a request.
func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return kube.Contexts(cmd.Flag("kube-config").Value.String()), cobra.ShellCompDirectiveNoFileComp
}

// completeKinds returns the built-in kinds.
func completeKinds(*cobra.Command, []string, string) (kinds []string, _ cobra.ShellCompDirective) {
	for _, b := range rbac.BuiltIns() {
		kinds = append(kinds, b.Name)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), cobra.ShellCompDirectiveNoFileComp
}

// completeFiles completes one argument with files of the hooks directory, or, while none of them fits, with others.
func (s *settings) completeFiles(find func(dir string) ([]string, cobra.ShellCompDirective)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		// The directory may be set by a variable or the file, which are not read during a completion.
		if len(args) > 0 || s.complete(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		files, directive := find(s.HooksDir)
		if directive == cobra.ShellCompDirectiveDefault {
			files = slices.DeleteFunc(files, func(name string) bool { return !strings.HasPrefix(name, typed) })
		}
		return files, directive
	}
}
