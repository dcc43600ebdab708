package main

import "github.com/spf13/cobra"

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
	_ = root.MarkPersistentFlagFilename(configFileFlag, "yaml", "yml")
}
