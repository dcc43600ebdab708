package debug

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

func runsText(runs []history.Run, now time.Time) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tHOOK\tAGO\tTOOK\tATTEMPT\tHOW IT ENDED\tWHY")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Hook, ago(now.Sub(r.Started)), r.Took, r.Attempt,
			ending(&r)+message(&r), r.Reason())
	}
	_ = w.Flush()
	return trimLines(b.String())
}

// ending is short for tables.
func ending(r *history.Run) string {
	switch r.Status {
	case history.Running, history.Interrupted:
		return string(r.Status)
	case history.Allowed:
		return r.Exit + " (allowed)"
	}
	return r.Exit
}

// message is what the hook reported in its result file, to follow how the run ended.
func message(r *history.Run) string {
	if r.Message == "" {
		return ""
	}
	return ": " + oneLine(r.Message)
}

// ago is a coarse duration.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// trimLines removes the spaces that columns leave at the ends of lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func verbatim(text []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(text); return err }
}

func runText(r *history.Run) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	line("run", "%s, attempt %d of task %s", r.ID, r.Attempt, r.Task)
	line("hook", "%s", r.Hook)
	line("binding", "%s (%s)", r.Binding, r.Event)
	if r.Queue != "" {
		line("queue", "%s, waited %s", r.Queue, r.Waited)
	}
	line("started", "%s", r.Started.Format(time.RFC3339))
	if r.Status == history.Running {
		line("status", "running for %s", r.Took)
	} else {
		line("status", "%s after %s", r.Status, r.Took)
		line("exit", "%s", r.Exit)
	}
	if r.Worker != "" {
		line("worker", "%s", r.Worker)
	}
	if r.Answer != "" {
		line("answer", "%s", r.Answer)
	}
	if r.Message != "" {
		line("message", "%s", oneLine(r.Message))
	}
	if r.Unrecorded {
		line("recorded", "no, another run was being recorded when this one failed")
	}
	list := func(title string, total int, items []string) {
		if total == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, item := range items {
			b.WriteString("  " + item + "\n")
		}
		if more := total - len(items); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	list("why", r.Events, r.Why)
	var patches []string
	for _, p := range r.Patches {
		patches = append(patches, p.Operation+" "+objectName(p))
		for _, w := range p.Warnings {
			patches = append(patches, "  warning: "+oneLine(w))
		}
	}
	list("operations", r.PatchCount+len(patches)-len(r.Patches), patches)
	if len(r.Kubectl) > 0 {
		list("calls of kubectl", 1, kubectlCalls(r))
	}
	if r.Error != "" {
		list("error", 1, strings.Split(strings.TrimRight(r.Error, "\n"), "\n"))
	}
	if r.Output != "" {
		title := "output"
		if r.OutputCut {
			title = "end of the output"
		}
		list(title, 1, strings.Split(strings.TrimRight(r.Output, "\n"), "\n"))
	}
	return b.String()
}

// kubectlCalls has an item for each command and way.
func kubectlCalls(r *history.Run) (items []string) {
	for _, c := range r.Kubectl {
		item := fmt.Sprintf("%d × %s, %s", c.Count, c.Verb, c.Way)
		if c.Reason != "" {
			item += " (" + c.Reason + ")"
		}
		items = append(items, item)
	}
	return items
}

func objectName(p history.Patch) string {
	if p.Namespace != "" {
		return p.Kind + " " + p.Namespace + "/" + p.Name
	}
	return p.Kind + " " + p.Name
}
