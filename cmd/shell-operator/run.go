package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/workbench"
)

func newRunCommand(s *settings, stdout io.Writer) *cobra.Command {
	var output, contextFile string
	var apply bool
	cmd := uses(&cobra.Command{
		Use:   "run HOOK",
		Short: "Run one hook once, on a saved binding context",
		Long: `Run one hook once, as the operator would: with the same variables, files, directory and time limit. HOOK is its name
below --hooks-dir, or the path of its file. What it prints is shown as it comes. What it writes to its files is checked
as the operator checks it, and shown: operations on Kubernetes objects, metrics, answers to reviews.

Nothing is carried out without --apply. What the hook itself does, by kubectl for instance, is done nevertheless.

--context is a file as the operator gives it to hooks, or one context alone; "-" is standard input. Without it the
hook runs for what an operator in an empty cluster would begin with.

Exit codes: 0 if the run succeeded and all that it handed back is valid, 1 if not.`,
		Example: `  shell-operator run pods.sh
  shell-operator run hooks/pods.sh --context added.json
  echo '[{"binding": "every-minute", "type": "Schedule"}]' | shell-operator run tick.py --context -
  shell-operator run pods.sh --context added.json --apply --kube-config ~/.kube/config
  shell-operator run validate.sh --context review.json -o json | jq .admission`,
		Args: exactlyOne("one hook, its name or the path of its file"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			t := workbench.TrialOptions{Hook: args[0], Apply: apply}
			if contextFile != "" {
				var err error
				if t.Contexts, err = readInput(contextFile); err != nil {
					return fmt.Errorf("cannot read the binding context: %w", err)
				}
			}
			if format(output) == formatText {
				t.Line = func(stream, line string) { fmt.Fprintf(stdout, "%s | %s\n", stream, line) }
			}
			ctx, stop := untilSignal()
			defer stop()
			report, err := workbench.Try(ctx, s.workbench(), t)
			if format(output) != formatText {
				return errors.Join(err, printValue(stdout, output, report))
			}
			return errors.Join(err, printTrial(stdout, report, apply))
		},
	}, "hooks-dir", "config-timeout", "hook-timeout", "hook-env", "jq-library-path", "kube-config", "kube-context", "dry-run")
	addFormat(cmd, &output, formatText, formatJSON, formatYAML)
	cmd.Flags().StringVar(&contextFile, "context", "", "file with the binding context; - is standard input")
	cmd.Flags().BoolVar(&apply, "apply", false, "carry out the operations that the hook asks for")
	_ = cmd.MarkFlagFilename("context", "json")
	return cmd
}

// readInput never returns nil without an error: an empty file is not the same as none.
func readInput(path string) ([]byte, error) {
	read := os.ReadFile
	if path == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	text, err := read(path)
	return append([]byte{}, text...), err
}

// printTrial prints what came of a run. What the hook printed has been shown.
func printTrial(w io.Writer, r workbench.TrialReport, apply bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, note := range r.Notes {
		fmt.Fprintf(t, "note: %s\n", note)
	}
	if r.Contexts > 0 {
		verdict := "succeeded"
		if r.Error != "" {
			verdict = "failed"
		}
		fmt.Fprintf(t, "%s %s in %s with %s (CPU %s, memory %d MiB)\n", r.Hook, verdict, seconds(r.Seconds), count(r.Contexts, "context"),
			seconds(r.CPUSeconds), r.MaxRSSBytes>>20)
	}
	if len(r.Operations) > 0 {
		fmt.Fprintf(t, "%s, %s:\n", count(len(r.Operations), "operation"), done(r, apply))
	}
	for _, o := range r.Operations {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", o.Operation, strings.TrimSpace(o.APIVersion+" "+o.Kind+suffix("/", o.Subresource)),
			strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
		printPayload(t, o)
	}
	if len(r.Metrics) > 0 {
		fmt.Fprintf(t, "%s:\n", count(len(r.Metrics), "metric"))
	}
	for _, m := range r.Metrics {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", m.Action, m.Name+labels(m.Labels), value(m), suffix("group ", m.Group))
	}
	printAnswers(t, r)
	return t.Flush()
}

func done(r workbench.TrialReport, apply bool) string {
	switch {
	case r.Applied:
		return "carried out"
	case apply:
		return "not all of them carried out"
	}
	return "not carried out (--apply does that)"
}

func printPayload(w io.Writer, o workbench.TrialOperation) {
	for _, payload := range []string{string(o.Object), string(o.Patch), o.JQFilter} {
		if payload != "" {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(strings.TrimSpace(payload), "\n", "\n    "))
		}
	}
}

func printAnswers(w io.Writer, r workbench.TrialReport) {
	if a := r.Admission; a != nil {
		verdict := "denied"
		if a.Allowed {
			verdict = "allowed"
		}
		fmt.Fprintf(w, "answer to the review: %s%s\n", verdict, suffix(": ", a.Message))
		for _, warning := range a.Warnings {
			fmt.Fprintf(w, "  warning: %s\n", warning)
		}
		if a.Patch != nil {
			fmt.Fprintf(w, "  patch: %s\n", a.Patch)
		}
	}
	if c := r.Conversion; c != nil && c.Failure != "" {
		fmt.Fprintf(w, "answer to the conversion: failed: %s\n", c.Failure)
	} else if c != nil {
		fmt.Fprintf(w, "answer to the conversion: %s\n", count(len(c.Objects), "object"))
		for _, object := range c.Objects {
			fmt.Fprintf(w, "  %s\n", object)
		}
	}
	if h := r.HTTP; h != nil {
		fmt.Fprintf(w, "answer to the request: %s\n", strings.TrimSpace(fmt.Sprint(h.Status, " ", http.StatusText(h.Status))))
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			fmt.Fprintf(w, "  %s: %s\n", name, strings.Join(h.Headers[name], ", "))
		}
		switch {
		case h.BodyBase64 != nil:
			fmt.Fprintf(w, "  %d bytes that are no text\n", len(h.BodyBase64))
		case h.Body != "":
			fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(h.Body, "\n"))
		}
	}
}

func value(m workbench.TrialMetric) string {
	if m.Action == "expire" {
		return ""
	}
	return fmt.Sprint(m.Value)
}

func labels(all map[string]string) string {
	if len(all) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, all[name]))
	}
	return "{" + strings.Join(parts, ",") + "}"
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
