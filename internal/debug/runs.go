package debug

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/run"
)

// runCells are the cells of a run in a list.
func runCells(r *history.Run) []Cell {
	return []Cell{
		asRun.of("ID", r.ID), asHook.of("HOOK", r.Hook), asAge.of("AGO", r.Started), asTook.of("TOOK", r.Took),
		asNumber.of("ATTEMPT", r.Attempt), asText.of("HOW IT ENDED", r.End()),
		asTime.hidden("STARTED", r.Started), asTook.wide("WAITED", r.Waited), asQueue.wide("QUEUE", r.Queue), asKey.wide("KEY", r.Key),
		asState.wide("STATUS", r.Status), asNumber.hidden("OPERATIONS", some(r.PatchCount)), asText.of("WHY", r.Reason()),
	}
}

// RunTable are runs as rows.
func RunTable(runs []history.Run) Table { return TableOf("runs", runs, runCells) }

// ago is an age as kubectl shows it.
func ago(d time.Duration) string { return duration.HumanDuration(d) }

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
		if r.PID > 0 {
			line("pid", "%d", r.PID)
		}
	} else {
		line("status", "%s after %s", r.Status, r.Took)
		line("exit", "%s", r.Exit)
	}
	if r.Cause != "" {
		line("cause", "%s", r.Cause)
	}
	var phases []string
	for _, p := range r.Phases {
		phases = append(phases, fmt.Sprintf("%s %s", p.Name, p.Took))
	}
	if len(phases) > 0 {
		line("phases", "%s", strings.Join(phases, ", "))
	}
	if r.Lacking != "" {
		line("lacking", "%s", r.Lacking)
	}
	if r.Worker != "" {
		line("worker", "%s", r.Worker)
	}
	if r.Answer != "" {
		line("answer", "%s", r.Answer)
	}
	if r.Message != "" {
		line("message", "%s", OneLine(r.Message))
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
		text := p.String()
		if p.Outcome == run.Failed || p.Outcome == run.NotSent {
			text += ": " + p.Outcome
		}
		patches = append(patches, text)
		for _, w := range p.Warnings {
			patches = append(patches, "  warning: "+OneLine(w))
		}
	}
	list("operations", r.PatchCount+len(patches)-len(r.Patches), patches)
	var calls []string
	for _, c := range r.Kubectl { // one for each command and way
		calls = append(calls, fmt.Sprintf("%d × %s, %s", c.Count, c.Verb, c.Way))
		if c.Reason != "" {
			calls[len(calls)-1] += " (" + c.Reason + ")"
		}
	}
	list("calls of kubectl", len(calls), calls)
	if rest := r.Rest(); rest != "" {
		list("error", 1, strings.Split(strings.TrimRight(rest, "\n"), "\n"))
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
