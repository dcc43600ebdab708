package debug

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

func runList(a *API, r request) (answer, error) {
	name := ""
	if r.name != "" {
		h, err := a.hook(r)
		if err != nil {
			return answer{}, err
		}
		name = h.Name
	}
	runs := a.History.Runs(name)
	if r.URL.Query().Get("failed") == "true" {
		runs = slices.DeleteFunc(runs, func(r history.Run) bool { return !r.Status.Bad() })
	}
	// The output is in the answer for one run only.
	for i := range runs {
		runs[i].Output, runs[i].OutputCut = "", false
	}
	return answer{value: runs, text: runsText(runs, time.Now())}, nil
}

func runsText(runs []history.Run, now time.Time) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tHOOK\tAGO\tTOOK\tATTEMPT\tHOW IT ENDED\tWHY")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.ID, r.Hook, ago(now.Sub(r.Started)), r.Took, r.Attempt, ending(&r)+message(&r), r.Reason())
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

func runShow(a *API, r request) (answer, error) {
	run, ok := a.History.Run(r.name)
	if !ok {
		return answer{}, refuse(http.StatusNotFound, "there is no run %q, or no longer", r.name).hint("shell-operator runs lists the known ones")
	}
	return answer{value: run, text: runText(&run)}, nil
}

// recorded returns the recording of a run.
func (a *API) recorded(r request) ([]byte, error) {
	text, err := a.Operator.Recording(r.name)
	if text != nil || err != nil {
		return text, err
	}
	name := "HOOK"
	if run, known := a.History.Run(r.name); known {
		if text, err := a.Operator.Recording(run.ID); text != nil || err != nil {
			return text, err
		}
		if name = run.Hook; run.Unrecorded {
			return nil, refuse(http.StatusNotFound, "run %q is not recorded, because another run was being recorded when it failed", r.name).
				hint("wait for its next attempt, or shell-operator hook record %s --for 10m records all runs from now on", name)
		}
	}
	return nil, refuse(http.StatusNotFound, "there is no recording of run %q", r.name).hint("by default the last failed run of each hook is kept; shell-operator hook record %s --for 10m records all runs from now on, unless --record or settings.record is none", name)
}

func runRecording(a *API, r request) (answer, error) {
	text, err := a.recorded(r)
	return answer{json: verbatim(text)}, err
}

func runContext(a *API, r request) (answer, error) {
	text, err := a.recorded(r)
	if err != nil {
		return answer{}, err
	}
	var recording struct{ Contexts json.RawMessage }
	if err := json.Unmarshal(text, &recording); err != nil {
		return answer{}, err
	}
	return answer{json: verbatim(append(recording.Contexts, '\n'))}, nil
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
