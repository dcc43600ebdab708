package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/dev/lint"
)

// errFound ends a command that has printed its findings.
type errFound struct{ text string }

func (e errFound) Error() string { return e.text }

func newLintCommand(s *settings, stdout, stderr io.Writer) *cobra.Command {
	var output string
	var strict, quiet bool
	var o dev.LintOptions
	cmd := uses(&cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check hooks and their tests, without a cluster",
		Long: `Check the hooks of a directory, by default that of --hooks-dir, and their test files. No cluster is needed.

For each file it reports what the operator would do: run it as a hook, or skip it, and why. Hooks are called with
--config, and the answer is checked as the operator checks it: keys, jq filters, crontabs, selectors, names, kinds. The
syntax of scripts in sh, bash, mksh and zsh is checked, and that of Python if python3 is installed.

Findings have the form of compiler messages: path:line:column: level: message (hint).

The API server compiles the CEL expressions of matchConditions when the operator starts or reloads, and rejects those that are not valid:
lint does not.

Exit codes: 0 if the hooks are loaded, 1 if there are errors, or warnings with --strict.`,
		Example: `  shell-operator lint hooks
  shell-operator lint --strict --quiet hooks
  shell-operator lint --no-run hooks          # calls no hook, so configurations are not checked
  shell-operator lint -o json hooks | jq '.findings[] | select(.level == "error")'`,
		Args:              upToOne("one directory"),
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.HooksDir = args[0]
			}
			ctx, stop := untilSignal()
			defer stop()
			report, err := dev.Lint(ctx, s.dev(), o)
			if err != nil {
				return err
			}
			if err := printReport(stdout, output, quiet, report); err != nil {
				return err
			}
			verdict := fmt.Sprintf("%s in %s: %s, %s", debug.Count(report.Hooks, "hook"), s.HooksDir, debug.Count(report.Errors, "error"),
				debug.Count(report.Warnings, "warning"))
			if report.Errors > 0 || strict && report.Warnings > 0 {
				return errFound{verdict}
			}
			fmt.Fprintln(stderr, verdict)
			return nil
		},
	}, "hooks-dir", "config-timeout", "contexts-per-run", "jq-library-path", "hook-env")
	addFormat(cmd, &output, formatText, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&o.NoRun, "no-run", false, "call no hook: configurations are not checked")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings, too")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "report problems only")
	return cmd
}

func printReport(w io.Writer, output string, quiet bool, report dev.LintReport) error {
	if quiet {
		report = report.WithoutNotes()
	}
	if output != formatText {
		for i, f := range report.Findings {
			if f.Level != lint.Note {
				report.Findings[i].Code = cmp.Or(f.Code, docs.CodeOf(f.Message))
			}
		}
		return printValue(w, output, report)
	}
	var b strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintln(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
