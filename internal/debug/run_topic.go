package debug

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// recordings are the recordings of runs.
type recordings interface {
	// Read returns the recording of a run, as JSON, by the id of the run or of its task; nil if there is none.
	Read(run string) ([]byte, error)
	// RecordAll records all runs of a hook until a time; false if nothing of the hook is recorded. A dry run only checks that.
	RecordAll(h *hook.Hook, until time.Time, dryRun bool) bool
}

type runTopic struct {
	hooks      *Hooks
	runs       *history.History
	recordings recordings
	queues     queueReader
	stopper    runStopper
}

// RunsTopic shows the last runs, follows, records and stops them.
func RunsTopic(hooks *Hooks, runs *history.History, recordings recordings, queues queueReader, stopper runStopper) Topic {
	t := &runTopic{hooks, runs, recordings, queues, stopper}
	return Topic{
		Name: "runs history", About: "Show the last runs: cause, time, duration, outcome", Troubles: t.troubles,
		Routes: []Route{
			{Method: "GET", Path: "/run/list", About: "the last runs of all hooks: `?hook=` of one, `failed=true` those that failed, " +
				"`all=true` also the last failed and the last successful one of each object", show: t.list, Command: &Command{
				Use: "runs [HOOK]", Short: "List the last runs: cause, time, duration, outcome", Args: [][]string{{}, {"hook"}},
				Takes: "at most one hook", List: listOf("runs", refreshed, runCells), Flags: []Flag{
					{Name: "hook", Field: "hook", Usage: "runs of this hook; the same as HOOK"},
					{Name: "failed", Field: "failed", Default: "false", Usage: "failed runs only"},
				},
				Long: `List the last runs of all hooks or of one, the latest first: their cause, start, duration and outcome. The operator
remembers the last 20 runs of each hook, and the last failed one for longer. For each object it keeps the last failed and the last
successful run: see "why --object". --failed lists the failed ones.

The id of a run is its task and its number: 17-2 is the second run of the task with task.id=17 in the log.`,
				Example: "  shell-operator runs\n  shell-operator runs pods.sh --failed\n  " +
					"shell-operator runs show 17-2\n  shell-operator runs -o json",
			}},
			{Method: "GET", Path: "/run/*/recording", About: "the recording of a run", show: t.recording},
			{Method: "GET", Path: "/run/*/context", About: "the binding contexts of a recorded run", show: t.context, Command: &Command{
				Use: "runs context RUN", Short: "Show the binding contexts of a recorded run", Args: ofOne, Takes: "the id of one run",
				Long:    `Show the binding contexts of a recorded run as JSON. "shell-operator runs save" describes which runs are recorded.`,
				Example: "  shell-operator runs context 17-2\n  shell-operator runs context 17-2 | jq '.[].object.metadata.name'",
			}},
			{Method: "GET", Path: "/run/*", About: "one run: `17-2` is the second run of task 17, `17` the last one", show: t.show,
				Command: &Command{
					Use: "runs show RUN", Short: "Show one run: events, output, error, operations", Args: ofOne, Takes: "the id of one run",
					Long: `Show one run with its events, the end of its output, its error and its operations on Kubernetes objects. RUN is an id as
"shell-operator runs" shows it, or a task.id of the log for its last attempt.`,
					Example: "  shell-operator runs show 17-2\n  shell-operator runs show 17 -o json",
				}},
			{Method: "POST", Path: "/run/*/stop", About: "end the process of a run as its time limit would", act: t.stop, Command: &Command{
				Use: "runs stop RUN", Short: "End a run that hangs", Args: ofOne, Takes: "the id of one run",
				Long: `End the process of a run as its time limit would: SIGTERM to its group, SIGKILL if it does not end. The attempt has failed:
the next one follows after its delay. A run that answers a request is not ended, nor one whose process has ended: its operations are
applied.`,
				Example: "  shell-operator runs stop 17-2 --dry-run\n  shell-operator runs stop 17-2",
			}},
			{Method: "POST", Path: "/hook/*/record", About: "record all runs of the hook: form field `for`, a duration",
				act: onHook(hooks, t.recordAll), Command: &Command{
					Use: "hook record HOOK", Short: "Record all runs of a hook for a while", Args: ofOne, Takes: oneHook,
					Long: `Record all runs of a hook for a while, also those that succeed. "shell-operator runs save" saves a recording. All
recordings together are bounded: the oldest are removed. Nothing is recorded with --record=none, or of a hook with settings.record: none.`,
					Example: "  shell-operator hook record pods.sh --for 10m",
					Flags:   []Flag{{Name: "for", Field: "for", Default: "10m", Usage: "how long"}},
				}},
			{Method: "GET", Path: "/tail", About: "runs of all hooks as they happen, until the client disconnects: `?hook=` of one; " +
				"`last=50` begins with the ends of the last runs", stream: t.tail},
		},
	}
}

func (t *runTopic) list(r request) (answer, error) {
	query := r.URL.Query()
	name, err := t.hooks.inQuery(r)
	if err != nil {
		return answer{}, err
	}
	runs := t.runs.Runs(name)
	if failed := query.Get("failed") == "true"; failed || query.Get("all") == "true" {
		runs = slices.DeleteFunc(t.runs.All(name), func(r history.Run) bool { return failed && !r.Status.Bad() })
	}
	// The output is in the answer for one run only.
	for i := range runs {
		runs[i].Output, runs[i].OutputCut = "", false
	}
	return answer{value: runs}, nil
}

func (t *runTopic) show(r request) (answer, error) {
	run, ok := t.runs.Run(r.name)
	if !ok {
		return answer{}, unknownRun(r.name)
	}
	return answer{value: run, text: runText(&run)}, nil
}

func unknownRun(id string) error {
	return refuse(http.StatusNotFound, "there is no run %q, or no longer", id).hint("shell-operator runs lists the known ones")
}

// recorded returns the recording of a run.
func (t *runTopic) recorded(r request) ([]byte, error) {
	text, err := t.recordings.Read(r.name)
	if text != nil || err != nil {
		return text, err
	}
	name := "HOOK"
	if run, known := t.runs.Run(r.name); known {
		if text, err := t.recordings.Read(run.ID); text != nil || err != nil {
			return text, err
		}
		name = run.Hook
	}
	return nil, refuse(http.StatusNotFound, "there is no recording of run %q", r.name).
		hint("by default the last failed run of each hook is kept, unless another run was being recorded; "+
			"shell-operator hook record %s --for 10m records all runs from now on, unless --record or settings.record is none", name)
}

func (t *runTopic) recording(r request) (answer, error) {
	text, err := t.recorded(r)
	return answer{json: verbatim(append(bytes.TrimSpace(text), '\n'))}, err
}

func (t *runTopic) context(r request) (answer, error) {
	text, err := t.recorded(r)
	if err != nil {
		return answer{}, err
	}
	var recording struct {
		Contexts      json.RawMessage
		WithoutValues string
	}
	if err := json.Unmarshal(text, &recording); err != nil {
		return answer{}, err
	}
	if recording.WithoutValues != "" {
		return answer{}, refuse(http.StatusNotFound, "the contexts of run %q are not recorded: %s", r.name, recording.WithoutValues).
			hint("test the hook with an invented Secret: shell-operator test --help")
	}
	return answer{json: verbatim(append(recording.Contexts, '\n'))}, nil
}

// recordLimit bounds the time for which all runs of a hook are recorded, recordDefault is that time if none is given.
const (
	recordLimit   = 24 * time.Hour
	recordDefault = 10 * time.Minute
)

func (t *runTopic) recordAll(r request, h *hook.Hook) (acted, error) {
	lasts := recordDefault
	if text := r.PostForm.Get("for"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts <= 0 || lasts > recordLimit {
			return acted{}, refuse(http.StatusBadRequest, "%q is not a time to record", text).hint("write for instance 10m, at most %s",
				history.Duration(recordLimit))
		}
	}
	until := time.Now().Add(lasts)
	if !t.recordings.RecordAll(h, until, r.dryRun) {
		return acted{}, refuse(http.StatusConflict, "nothing is recorded of hook %q", h.Name).hint("--record or its settings.record is none")
	}
	return done(1, "hook %q: all runs are recorded until %s (shell-operator runs %s, then shell-operator runs save RUN)", h.Name,
		until.Format(time.TimeOnly), h.Name), nil
}
