package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/dev"
)

func newInitCommand(stdout io.Writer) *cobra.Command {
	var o dev.InitOptions
	cmd := &cobra.Command{
		Use:   "init FILE --binding TYPE",
		Short: "Write the first version of a hook and its test file",
		Long: `Write an executable hook, its test file beside it, and the object of its tests below fixtures. Nothing is overwritten.

TYPE is kubernetes, schedule, startup, validating, mutating, conversion or http. The languages are sh, bash (with the
shell library) and python, in which there are no conversions; hooks in sh need jq.`,
		Example: `  shell-operator init hooks/pods.sh --binding kubernetes
  shell-operator init hooks/check.py --binding validating --kind Deployment --lang python
  shell-operator init hooks/widgets.sh --binding kubernetes --kind example.com/v1/Widget --lang bash`,
		Args: exactlyOne("one file, the hook"),
		RunE: func(_ *cobra.Command, args []string) error {
			o.File = args[0]
			if o.Binding == "" {
				return &hinted{fmt.Errorf("--binding is missing: the type of the events that run the hook"),
					"use one of kubernetes, schedule, startup, validating, mutating, conversion, http"}
			}
			paths, err := dev.Init(o)
			for _, path := range paths {
				fmt.Fprintln(stdout, "wrote", path)
			}
			if err != nil {
				return err
			}
			next := "test " + filepath.Dir(o.File)
			if o.NoTest {
				next = "lint " + filepath.Dir(o.File)
			}
			_, err = fmt.Fprintf(stdout, "next: shell-operator %s\n", next)
			return err
		},
	}
	cmd.Flags().StringVar(&o.Binding, "binding", "", "type of the binding")
	cmd.Flags().StringVar(&o.Kind, "kind", "", "kind of the objects, GROUP/VERSION/KIND if it is not built in (default Pod)")
	cmd.Flags().StringVar(&o.Language, "lang", "", "language: sh, bash, python (default: that of the extension of FILE, else sh)")
	cmd.Flags().BoolVar(&o.NoTest, "no-test", false, "write no test file")
	_ = cmd.RegisterFlagCompletionFunc("binding",
		cobra.FixedCompletions(strings.Fields("kubernetes schedule startup validating mutating conversion http"),
			cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions([]string{"sh", "bash", "python"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
