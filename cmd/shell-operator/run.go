package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
)

func newRunCommand(s *settings, stdout io.Writer) *cobra.Command {
	var output, contextFile string
	var showContext bool
	flags := newRunFlags()
	cmd := uses(&cobra.Command{
		Use:   "run HOOK",
		Short: "Run one hook in a simulated cluster, without an operator",
		Long: `Run one hook as the operator would: with the same files, directory and time limit. HOOK is its name below --hooks-dir,
or the path of its file. Its output is shown line by line, and the files that it writes are checked as the operator
checks them and shown: operations on Kubernetes objects, metrics, the result, admission and conversion responses.

The hook runs on events of a simulated cluster, to which its operations are applied. No other cluster is reached: kubectl
in a hook needs --stub. The flags from --objects to --stub are the keys of test files: "shell-operator explain tests".
With objects and no event it gets the Synchronization of all its bindings; without both, the first run that it would have
in an empty cluster.

--from is a recording of "shell-operator runs save", a binding context file, or a file with one context; "-" is standard
input. Then operations are checked only. A recording is replayed: each difference to the recorded result is printed, but
not those of the output.

Exit codes: 0 if the run succeeded and everything it wrote is valid, 1 if not, 3 if no event caused a run.`,
		Example: `  shell-operator run pods.sh
  shell-operator run hooks/pods.sh --context added.json
  shell-operator run pods.sh --from 17-2.json
  shell-operator run pods.sh --objects fixtures --event Added=pod/web --event Deleted=pod/web
  echo '[{"binding": "every-minute", "type": "Schedule"}]' | shell-operator run tick.py --context -
  shell-operator run validate.sh --context review.json -o json | jq .admission`,
		Args: exactlyOne("one hook, its name or the path of its file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := dev.TrialOptions{Hook: args[0]}
			if showContext {
				t.Started = func(contexts []byte) { fmt.Fprintf(stdout, "context | %s", contexts) }
			}
			in, err := flags.input(contextFile)
			if err != nil {
				return err
			}
			t.Input = in
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
				err = errors.Join(err, printTrial(stdout, report))
			}
			if err == nil && report.Runs == 0 {
				return errNoRun{}
			}
			return err
		},
	}, "hooks-dir", "config-timeout", "hook-timeout", "hook-env", "jq-library-path")
	addFormat(cmd, &output, formatText, formatJSON, formatYAML)
	cmd.Flags().StringVar(&contextFile, "from", "", "recording, or file with the binding context; - is standard input")
	cmd.Flags().StringVar(&contextFile, "context", "", "the same as --from")
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

// printTrial prints the result of a run. The output of the hook is printed already.
func printTrial(w io.Writer, r dev.TrialReport) error {
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if r.Runs > 0 {
		verdict := "succeeded"
		if r.Error != "" {
			verdict = "failed"
		}
		fmt.Fprintf(w, "%s: %s, the last one %s in %s (CPU %s, memory %d MiB)\n", r.Hook, debug.Count(r.Runs, "run"), verdict, seconds(r.Seconds),
			seconds(r.CPUSeconds), r.MaxRSSBytes>>20)
	}
	if !reflect.ValueOf(r.Outcome).IsZero() {
		if err := printValue(w, formatYAML, r.Outcome); err != nil {
			return err
		}
	}
	printReplay(w, r.Replay)
	return nil
}

func printReplay(w io.Writer, r *dev.TrialReplay) {
	if r == nil {
		return
	}
	if len(r.Differences) == 0 {
		fmt.Fprintf(w, "the result is that of the recorded run %s: %s\n", r.Run, r.Exit)
		return
	}
	fmt.Fprintf(w, "the result differs from that of the recorded run %s:\n", r.Run)
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s\n", d)
	}
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
