package debug

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// Lanes are the first lanes of a queue.
type Lanes struct {
	Queue string `json:"queue"`
	// Keyed is false for a FIFO queue, which has one lane without a key.
	Keyed       bool `json:"keyed"`
	Concurrency int  `json:"concurrency"`
	Paused      bool `json:"paused,omitempty"`
	Tasks       int  `json:"tasks"`
	// Count is the number of all lanes with tasks. Of these, Running run, and Delayed have failed and do not run.
	Count   int `json:"count"`
	Running int `json:"running"`
	Delayed int `json:"delayed"`
	// Matching is the number of those whose keys contain the text; without one that of all.
	Matching int           `json:"matching"`
	Lanes    []LaneOfQueue `json:"lanes"`
}

// LaneOfQueue is a lane with its first task.
type LaneOfQueue struct {
	Key   string           `json:"key,omitempty"`
	Tasks int              `json:"tasks"`
	Phase Phase            `json:"phase"`
	For   history.Duration `json:"for"`
	// Failures are those of the first task, with the last error; RetryIn is the time until its next attempt.
	Failures int              `json:"failures,omitempty"`
	RetryIn  history.Duration `json:"retryIn,omitempty"`
	Error    string           `json:"error,omitempty"`
	// Hook, Event and Binding are those of the first task; they are empty for work of the operator itself, which is About.
	Hook    string `json:"hook,omitempty"`
	Event   string `json:"event,omitempty"`
	Binding string `json:"binding,omitempty"`
	About   string `json:"about,omitempty"`
}

// Head names the first task.
func (l *LaneOfQueue) Head() string { return taskName(l.Hook, l.Event, l.Binding, l.About) }

const (
	// shownLanesOfQueue limits the lanes of an answer.
	shownLanesOfQueue = 200
	// shownError limits the error of a lane: an answer has many.
	shownError = 500
)

func laneOfQueue(l *Lane, now time.Time) LaneOfQueue {
	shown := LaneOfQueue{Key: l.Key, Tasks: l.Length, Phase: l.Phase, Failures: l.Failures, RetryIn: history.Duration(l.Left),
		Error: history.Cut(l.LastError, shownError), Hook: l.Task.Hook, Event: l.Task.Type, Binding: l.Task.Binding, About: l.Task.Description}
	if !l.Since.IsZero() {
		shown.For = history.Duration(now.Sub(l.Since))
	}
	return shown
}

// Cells are those of the lane in a list.
func (l *LaneOfQueue) Cells() []Cell {
	return []Cell{
		asKey.of("KEY", l.Key), asNumber.of("TASKS", l.Tasks), asState.of("STATE", cmp.Or(l.Phase, "idle")), asAge.of("FOR", l.For),
		asNumber.of("FAILURES", some(l.Failures)), asLeft.of("NEXT ATTEMPT", l.RetryIn), asText.hidden("FIRST TASK", l.About),
		asHook.of("HOOK", l.Hook), asFault.of("ERROR", l.Error),
	}
}

// Table are the lanes as rows.
func (l *Lanes) Table() Table {
	t := TableOf("lanes of queue "+l.Queue, l.Lanes)
	t.Add(asActions, "ACTIONS", func(row int) any {
		lane, of := &l.Lanes[row], []string{"name", l.Queue}
		if lane.Failures == 0 {
			return nil
		}
		if l.Keyed { // without a key it would be an action on all lanes
			of = append(of, "key", lane.Key)
		}
		return []Action{acts("queue/retry", of...), acts("queue/skip", of...)}
	})
	switch {
	case len(l.Lanes) == l.Count:
	case l.Matching < l.Count:
		t.Rest = fmt.Sprintf("%d of %d lanes that match, %d in all", len(l.Lanes), l.Matching, l.Count)
	default:
		t.Rest = fmt.Sprintf("%d of %d lanes", len(l.Lanes), l.Count)
	}
	return t
}

func (t *queueTopic) showLanes(r request, q Queue) (answer, error) {
	now, text := time.Now(), r.URL.Query().Get("key")
	q, matching, ok := t.queues.Lanes(q.Name, text, shownLanesOfQueue)
	if !ok { // it has ended
		return answer{}, refuse(http.StatusBadRequest, "there is no queue %q any more", r.name).as(unknownQueue)
	}
	all := Lanes{Queue: q.Name, Keyed: q.Keyed, Concurrency: q.Concurrency, Paused: q.Paused, Tasks: q.Length, Count: q.LaneCount,
		Running: q.Running, Delayed: q.Delayed, Matching: matching}
	lanes := q.Lanes
	if !q.Keyed && text == "" {
		lanes = q.lanes()
	}
	all.Lanes = make([]LaneOfQueue, len(lanes))
	for i := range lanes {
		all.Lanes[i] = laneOfQueue(&lanes[i], now)
	}
	return answer{value: &all}, nil
}
