package debug

import (
	"cmp"
	"fmt"
	"net/http"
)

// Lanes are the first lanes of a queue.
type Lanes struct {
	Queue string `json:"queue"`
	// Keyed is false for a FIFO queue, which has one lane without a key.
	Keyed       bool `json:"keyed"`
	Concurrency int  `json:"concurrency"`
	Paused      bool `json:"paused,omitempty"`
	Tasks       int  `json:"tasks"`
	// Count is the number of all lanes with tasks. In a keyed queue, Running of them run, and Delayed have failed and do not run.
	Count   int `json:"count"`
	Running int `json:"running"`
	Delayed int `json:"delayed"`
	// Matching is the number of lanes whose keys contain the text; without a text it is Count.
	Matching int    `json:"matching"`
	Lanes    []Lane `json:"lanes"`
}

// shownLanesOfQueue limits the lanes of an answer.
const shownLanesOfQueue = 200

func (l *Lanes) cells(lane *Lane) []Cell {
	var can []Action
	if of := []string{"name", l.Queue}; lane.Failures > 0 {
		if l.Keyed { // without a key it would be an action on all lanes
			of = append(of, "key", lane.Key)
		}
		can = []Action{acts("queue/retry", of...), acts("queue/skip", of...)}
	}
	return []Cell{
		asKey.of("KEY", lane.Key), asNumber.of("TASKS", lane.Tasks), asState.of("STATE", cmp.Or(lane.Phase, "idle")), asAge.of("FOR", lane.For),
		asNumber.of("FAILURES", some(lane.Failures)), asLeft.of("NEXT ATTEMPT", lane.RetryIn), asText.hidden("FIRST TASK", lane.About),
		asHook.of("HOOK", lane.Hook), asFault.of("ERROR", lane.Error), asActions.of("ACTIONS", can),
	}
}

// Table are the lanes as rows.
func (l *Lanes) Table() Table {
	t := TableOf("lanes of queue "+l.Queue, l.Lanes, l.cells)
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
	q, ok := t.queues.Queue(q.Name, r.URL.Query().Get("key"), shownLanesOfQueue)
	if !ok { // it has ended
		return answer{}, refuse(http.StatusBadRequest, "there is no queue %q any more", r.name).as(unknownQueue)
	}
	all := Lanes{Queue: q.Name, Keyed: q.Keyed, Concurrency: q.Concurrency, Paused: q.Paused, Tasks: q.Tasks, Count: q.Lanes,
		Running: q.Running, Delayed: q.Delayed, Matching: q.Matching, Lanes: append([]Lane{}, q.FirstLanes...)}
	if !q.Keyed {
		all.Count = min(1, q.Tasks)
	}
	return answer{value: &all}, nil
}
