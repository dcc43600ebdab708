// Command shell-operator runs hook scripts on Kubernetes events.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	// A hook of the same user could write into the streams of a command that talks to the operator, or into its memory.
	_ = protect() // start reports the error
	os.Exit(run(newSettings(os.Environ()), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(s *settings, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand(s, stdout, stderr)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if code, ok := exitCode(err); ok {
		return code
	}
	escaped := &escaping{w: stderr} // errors have texts of operators and hooks
	text := err.Error()
	if failed, ok := errors.AsType[*fs.PathError](err); ok && strings.HasSuffix(failed.Op, "stat") { // no word of a user
		text = strings.Replace(text, failed.Op+" "+failed.Path, failed.Path, 1)
	}
	fmt.Fprintf(escaped, "Error: %s\n", text)
	if hint := hintFor(err); hint != "" {
		fmt.Fprintf(escaped, "Hint: %s\n", hint)
	}
	if noAnswer := new(unanswered); errors.As(err, &noAnswer) {
		return exitNoAnswer
	}
	return exitError
}

// newRootCommand is the tree of all commands.
func newRootCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "shell-operator",
		Short: "Run hook scripts on Kubernetes events",
		Long: `shell-operator runs executable files ("hooks") on Kubernetes events, schedules, webhook and HTTP requests. Called with
--config, a hook prints its bindings. It is then run for each event, with the events as JSON in the file $BINDING_CONTEXT_PATH.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
	}
	uses(root, "hooks-dir", "kube-config", "log-level") // the help fits a screen
	root.AddGroup(commandGroups...)
	// Persistent flags are accepted before and after the command.
	s.addFlags(root.PersistentFlags())
	root.SetUsageFunc(s.usage)
	root.SetFlagErrorFunc(noSuchFlag)
	start := newStartCommand(s, stdout)
	root.RunE = start.RunE
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return s.complete(cmd.Flags())
	}
	root.SetVersionTemplate("shell-operator {{.Version}}\n")
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("operator", start, newDevCommand(s, stdout), newUninstallCommand(s, stdout))
	add("develop", newInitCommand(stdout), newLintCommand(s, stdout, stderr), newRunCommand(s, stdout), newTestCommand(s, stdout, stderr),
		newRBACCommand(s, stdout, stderr),
		newExplainCommand(stdout))
	add("inspect", newAskCommands(s, stdout)...)
	root.AddCommand(newOptionsCommand(s, stdout), newVersionCommand(stdout), newDebugOptionsCommand(s, stdout))
	root.SetOut(stdout)
	root.SetErr(stderr)
	refuseUnknown(root)
	shorten(root)
	return root
}

// Exit codes. A second signal ends with 128 and its number, as shells have it.
const (
	exitOK       = 0
	exitError    = 1
	exitNoAnswer = 2
	// exitNoRun ends a simulation in which no event caused a run.
	exitNoRun = 3
)
