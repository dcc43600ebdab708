package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
)

func newTestCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	var output, pattern string
	var t dev.TestOptions
	var verbose bool
	cmd := uses(&cobra.Command{
		Use:   "test [PATH…]",
		Short: "Run the test files of hooks, in a simulated cluster",
		Long: `Run every file whose name ends with _test.yaml, below each PATH, by default the current directory. A case names objects and
events; the hook runs on them as an operator would run it, in a simulated cluster, and the result is compared with what
the case expects. "shell-operator explain tests" prints all keys.

--update writes the results of the cases whose "expect:" is empty into the file. Check them, and keep what matters.

With --as-role, the simulated cluster grants what a file of Roles does, such as that of "shell-operator rbac": a case whose bindings,
operations or sets need more fails, and its failure has the rule to add. --namespace is that of the operator.

Exit codes: 0 if all cases passed, 1 if not.`,
		Example: `  shell-operator test hooks
  shell-operator test hooks/pods_test.yaml -v
  shell-operator test --run 'new Pod' --update
  shell-operator test -o json hooks >report.json
  shell-operator test --as-role rbac.yaml hooks`,
		RunE: func(_ *cobra.Command, args []string) error {
			if t.Paths = args; len(args) == 0 {
				t.Paths = []string{"."}
			}
			if pattern != "" {
				var err error
				if t.Run, err = regexp.Compile(pattern); err != nil {
					return fmt.Errorf("--run %q: %w", pattern, err)
				}
			}
			t.Namespace = s.Installation.Namespace
			ctx, stop := untilSignal()
			defer stop()
			report, err := dev.Test(ctx, s.dev(), t)
			if err != nil {
				return err
			}
			if err := printTests(stdout, output, report, verbose); err != nil {
				return err
			}
			verdict := fmt.Sprintf("%s in %s: %d failed (%s)", debug.Count(len(report.Cases), "case"), debug.Count(report.Files, "file"),
				report.Failed, seconds(report.Seconds))
			if report.Failed > 0 {
				return errFound{verdict}
			}
			fmt.Fprintln(stderr, verdict)
			return nil
		},
	}, "config-timeout", "contexts-per-run", "jq-library-path", "namespace")
	addFormat(cmd, &output, formatText, formatJSON)
	cmd.Flags().StringVar(&pattern, "run", "", "only cases whose name matches a regular expression")
	cmd.Flags().BoolVar(&t.Update, "update", false, "write the results into empty expectations")
	cmd.Flags().StringVar(&t.Role, "as-role", "", "file of Roles that the simulated cluster grants; a case fails if they lack something")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print the output of the hooks and each case that passed")
	_ = cmd.MarkFlagFilename("as-role", "yaml", "yml", "json")
	return cmd
}

func printTests(w io.Writer, output string, r dev.TestReport, verbose bool) error {
	if output == formatJSON {
		for _, c := range r.Cases {
			for i := range c.Failures {
				c.Failures[i].Code = docs.CodeOf(c.Failures[i].Message)
			}
		}
		return printValue(w, output, r)
	}
	var b strings.Builder
	for _, c := range r.Cases {
		printCase(&b, c, verbose)
	}
	for _, file := range r.Updated {
		fmt.Fprintf(&b, "updated: %s\n", file)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printCase(b *strings.Builder, c dev.TestCase, verbose bool) {
	switch {
	case len(c.Failures) > 0:
		fmt.Fprintf(b, "FAIL %s:%d%s\n", c.File, c.Line, suffix(": ", c.Name))
	case verbose:
		fmt.Fprintf(b, "ok   %s:%d: %s (%s)\n", c.File, c.Line, c.Name, seconds(c.Seconds))
	case len(c.Warnings) > 0:
		fmt.Fprintf(b, "WARN %s:%d: %s\n", c.File, c.Line, c.Name)
	default:
		return
	}
	for _, f := range c.Failures {
		place := fmt.Sprintf("%s:%d", c.File, f.Line)
		if f.Column > 0 {
			place += fmt.Sprintf(":%d", f.Column)
		}
		fmt.Fprintf(b, "  %s: %s\n", place, withHint(f))
		for _, line := range f.Diff {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", warning)
	}
	if len(c.Failures) == 0 && !verbose {
		return
	}
	for _, note := range c.Notes {
		fmt.Fprintf(b, "  note: %s\n", note)
	}
	if verbose {
		for _, line := range c.Stdout {
			fmt.Fprintf(b, "  stdout | %s\n", line)
		}
		for _, line := range c.Stderr {
			fmt.Fprintf(b, "  stderr | %s\n", line)
		}
	}
}

func withHint(f testfile.Failure) string {
	text := strings.TrimSuffix(f.Message, "\n")
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}
