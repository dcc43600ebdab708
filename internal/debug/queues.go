package debug

import (
	"fmt"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// queueDump is a queue with tasks.
type queueDump struct {
	Name   string     `json:"name"`
	Count  int        `json:"tasksCount"`
	Status string     `json:"status,omitempty"`
	Tasks  []taskDump `json:"tasks,omitempty"`
	// NotShown are the tasks, or the lanes of a keyed queue, beyond the first ones.
	NotShown int       `json:"notShown,omitempty"`
	Requeues *Requeues `json:"requeues,omitempty"`
}

// taskDump is a task, or the first task of a lane of a keyed queue.
type taskDump struct {
	Index       int    `json:"index"`
	Description string `json:"description"`
	// Key is that of the lane, Tasks how many it has.
	Key   string `json:"key,omitempty"`
	Tasks int    `json:"tasks,omitempty"`
}

// queuesDump is all queues.
type queuesDump struct {
	Active  []queueDump  `json:"active"`
	Empty   []queueDump  `json:"empty,omitempty"`
	Summary queueSummary `json:"summary"`
}

type queueSummary struct {
	Main   int        `json:"mainQueueTasks"`
	Others otherCount `json:"otherQueues"`
	Total  int        `json:"totalTasks"`

	none, noMain bool
}

type otherCount struct {
	Active int `json:"active"`
	Empty  int `json:"empty"`
	Tasks  int `json:"tasks"`
}

// shownTasks limits the tasks and lanes of a queue that are shown: the queue is locked meanwhile.
const shownTasks = 1000

func dumpOf(q Queue) queueDump {
	d := queueDump{Name: q.Name, Count: q.Length, Status: q.Status, Requeues: requeues([]Queue{q}, nil, time.Now())}
	if q.Keyed {
		for i, l := range q.Lanes {
			d.Tasks = append(d.Tasks, taskDump{i + 1, l.Task.failed(l.Failures, l.LastError), l.Key, l.Length})
		}
		d.NotShown = max(0, q.LaneCount-len(q.Lanes))
		return d
	}
	d.NotShown = max(0, q.Length-len(q.Tasks))
	for i, t := range q.Tasks {
		text := t.Description
		if i == 0 {
			text = t.failed(q.Failures, q.LastError)
		}
		d.Tasks = append(d.Tasks, taskDump{Index: i + 1, Description: text})
	}
	return d
}

// failed is the description with the failures so far.
func (t Task) failed(failures int, last string) string {
	text := t.Description
	if failures > 0 {
		text += fmt.Sprintf(":failures %d", failures)
		if last != "" {
			text += ":" + last
		}
	}
	return text
}

func dumpAll(queues []Queue, showEmpty bool) queuesDump {
	d := queuesDump{Active: []queueDump{}}
	d.Summary.none, d.Summary.noMain = len(queues) == 0, true
	others := false
	for _, q := range queues {
		isMain := q.Name == hook.MainQueue
		others = others || !isMain
		d.Summary.Total += q.Length
		switch {
		case isMain:
			d.Summary.Main, d.Summary.noMain = q.Length, false
		case q.Length > 0:
			d.Summary.Others.Active++
			d.Summary.Others.Tasks += q.Length
		default:
			d.Summary.Others.Empty++
		}
		if q.Length > 0 || q.Paused || len(q.Requeues) > 0 {
			d.Active = append(d.Active, dumpOf(q))
		} else if showEmpty {
			d.Empty = append(d.Empty, queueDump{Name: q.Name})
		}
	}
	if !others {
		d.Empty = nil
	}
	return d
}

func (d queueDump) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Queue '%s': length %d, status: '%s'\n\n", d.Name, d.Count, d.Status)
	for _, t := range d.Tasks {
		lane := ""
		if t.Tasks > 0 {
			lane = fmt.Sprintf("key %q, %s: ", t.Key, count(t.Tasks, "task"))
		}
		fmt.Fprintf(&b, "%2d. %s%s\n", t.Index, lane, OneLine(t.Description))
	}
	if d.NotShown > 0 {
		fmt.Fprintf(&b, "and %d more\n", d.NotShown)
	}
	if d.Requeues != nil {
		fmt.Fprintln(&b, d.Requeues)
	}
	return b.String()
}

func (d queuesDump) text() string {
	var b strings.Builder
	for _, q := range d.Active {
		b.WriteString(q.text() + "\n")
	}
	if len(d.Empty) > 0 {
		fmt.Fprintf(&b, "Empty queues (%d):\n", len(d.Empty))
		for _, q := range d.Empty {
			b.WriteString("- " + q.Name + "\n")
		}
		b.WriteString("\n")
	}
	b.WriteString("Summary:\n")
	s := d.Summary
	if s.none {
		return b.String() + "  No queues.\n"
	}
	switch {
	case s.noMain:
	case s.Main == 0:
		fmt.Fprintf(&b, "- '%s' queue: empty.\n", hook.MainQueue)
	default:
		fmt.Fprintf(&b, "- '%s' queue: %s.\n", hook.MainQueue, count(s.Main, "task"))
	}
	if n := s.Others.Active + s.Others.Empty; n > 0 {
		fmt.Fprintf(&b, "- %s (%d active, %d empty): %s.\n", count(n, "other queue"), s.Others.Active, s.Others.Empty,
			count(s.Others.Tasks, "task"))
	}
	if s.Total == 0 {
		return b.String() + "- no tasks to handle.\n"
	}
	fmt.Fprintf(&b, "- total %s to handle.\n", count(s.Total, "task"))
	return b.String()
}
