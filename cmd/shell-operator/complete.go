package main

import (
	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// completeSettings registers the values of settings with few values, and settings that are paths.
func completeSettings(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"log-level":                         telemetry.LevelNames(),
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
}
