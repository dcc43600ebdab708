package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/dev"
)

func newRunCommand(s *settings, stdout io.Writer) *cobra.Command {
	var output, contextFile string
	var apply, showContext bool
	flags := newRunFlags()
	cmd := uses(&cobra.Command{
		Use:   "run HOOK",
		Short: "Run one hook once with a binding context, without an operator",
		Long: `Run one hook once, as the operator would: with the same variables, files, directory and time limit. HOOK is its name
below --hooks-dir, or the path of its file. Its output is shown line by line, and the files that it writes are checked
as the operator checks them and shown: operations on Kubernetes objects, metrics, the result, admission and conversion
responses.

Operations are applied with --apply only. Changes that the hook makes itself, by kubectl for instance, are made in any case.

--from is a recording of "shell-operator runs save", a binding context file, or a file with one context; "-" is standard
input. A recording is replayed: each difference to the recorded result is printed, but not those of the output. Without
--from the hook runs with the first context that it would get in an empty cluster. Bindings that need an object or a
request have no such context.

With any of the flags from --objects to --stub the hook runs on events of a simulated cluster; they are the keys of test
files: "shell-operator explain tests". With objects and no event it gets the Synchronization of all its bindings.

Exit codes: 0 if the run succeeded and everything it wrote is valid, 1 if not, 3 if no event caused a run.`,
		Example: `  shell-operator run pods.sh
  shell-operator run hooks/pods.sh -f added.json
  shell-operator run pods.sh --from 17-2.json
  shell-operator run pods.sh --objects fixtures --event Added=pod/web --event Deleted=pod/web
  echo '[{"binding": "every-minute", "type": "Schedule"}]' | shell-operator run tick.py --context -
  shell-operator run pods.sh --context added.json --apply --kube-config ~/.kube/config
  shell-operator run validate.sh --context review.json -o json | jq .admission`,
		Args: exactlyOne("one hook, its name or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := dev.TrialOptions{Hook: args[0], Apply: apply}
			if showContext {
				t.Started = func(contexts []byte) { fmt.Fprintf(stdout, "context | %s", contexts) }
			}
			if flags.used() {
				if apply || contextFile == "-" {
					return errors.New("--apply and --from - are for a run without a simulated cluster: leave out the flags of test cases")
				}
				in, err := flags.input(contextFile)
				if err != nil {
					return err
				}
				t.Input = &in
			}
			if contextFile != "" && t.Input == nil {
				var err error
				if t.Contexts, err = readInput(contextFile); err != nil {
					return fmt.Errorf("cannot read the binding context: %w", err)
				}
			}
			if output == formatText {
				t.Line = func(stream, line string) { fmt.Fprintf(stdout, "%s | %s\n", stream, line) }
			}
			ctx, stop := untilSignal()
			defer stop()
			report, err := dev.Try(ctx, s.dev(), t)
			if output != formatText {
				if report.Error != "" {
					report.Code = docs.CodeOf(report.Error)
				}
				err = errors.Join(err, printValue(stdout, output, report))
			} else {
				err = errors.Join(err, printTrial(stdout, report, apply))
			}
			if err == nil && t.Input != nil && report.Runs == 0 {
				return errNoRun{}
			}
			return err
		},
	}, "hooks-dir", "config-timeout", "hook-timeout", "hook-env", "kubectl", "jq-library-path", "kube-config", "kube-context", "namespace",
		"instance", "dry-run")
	addFormat(cmd, &output, formatText, formatJSON, formatYAML)
	cmd.Flags().StringVar(&contextFile, "from", "", "recording, or file with the binding context; - is standard input")
	cmd.Flags().StringVarP(&contextFile, "context", "f", "", "the same as --from")
	cmd.Flags().BoolVar(&apply, "apply", false, "apply the operations of the hook")
	cmd.Flags().BoolVar(&showContext, "show-context", false, "print the binding contexts of each run")
	cmd.Flags().AddFlagSet(flags.FlagSet)
	for _, name := range []string{"from", "context"} {
		_ = cmd.MarkFlagFilename(name, "json")
	}
	for _, name := range []string{"objects", "body"} {
		_ = cmd.MarkFlagFilename(name)
	}
	return cmd
}

// errNoRun ends a simulation in which no event caused a run.
type errNoRun struct{}

func (errNoRun) Error() string { return "no event caused a run" }

// readInput never returns nil without an error: an empty file is not the same as none.
func readInput(path string) ([]byte, error) {
	read := os.ReadFile
	if path == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	text, err := read(path)
	return append([]byte{}, text...), err
}

// printTrial prints the result of a run. The output of the hook is printed already.
func printTrial(w io.Writer, r dev.TrialReport, apply bool) error {
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	verdict := "succeeded"
	if r.Error != "" {
		verdict = "failed"
	}
	if r.Contexts > 0 {
		fmt.Fprintf(w, "%s %s in %s with %s (CPU %s, memory %d MiB)\n", r.Hook, verdict, seconds(r.Seconds), count(r.Contexts, "context"),
			seconds(r.CPUSeconds), r.MaxRSSBytes>>20)
	}
	if r.Runs > 0 {
		fmt.Fprintf(w, "%s in a simulated cluster, the last one %s\n", count(r.Runs, "run"), verdict)
	}
	var errs []error
	print := func(title string, value any, written bool) {
		if written {
			errs = append(errs, printWritten(w, title, value))
		}
	}
	print(count(len(r.Operations), "operation")+", "+done(r, apply), r.Operations, len(r.Operations) > 0)
	print(count(len(r.Metrics), "metric"), r.Metrics, len(r.Metrics) > 0)
	print("result", r.Result, r.Result != nil)
	print("answer to the review", r.Admission, r.Admission != nil)
	print("answer to the conversion", r.Conversion, r.Conversion != nil)
	print("answer to the request", r.HTTP, r.HTTP != nil)
	printReplay(w, r.Replay)
	return errors.Join(errs...)
}

// printWritten prints what a hook has written as YAML below a title.
func printWritten(w io.Writer, title string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s:\n  %s\n", title, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  "))
	return err
}

func printReplay(w io.Writer, r *dev.TrialReplay) {
	if r == nil {
		return
	}
	if len(r.Differences) == 0 {
		fmt.Fprintf(w, "the result is that of the recorded run %s: %s\n", r.Run, r.Exit)
		return
	}
	fmt.Fprintf(w, "%s from the recorded run %s:\n", count(len(r.Differences), "difference"), r.Run)
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s\n", d)
	}
}

func done(r dev.TrialReport, apply bool) string {
	switch {
	case r.Runs > 0:
		return "applied to the simulated cluster"
	case r.Applied:
		return "applied"
	case apply:
		return "not all of them applied"
	}
	return "not applied (use --apply)"
}

// suffix is text with something before it, or nothing.
func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
