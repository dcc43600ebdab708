package debug

import (
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
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
	// Key is the key of the lane, Tasks how many tasks it has.
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
	d := queueDump{Name: q.Name, Count: q.Tasks, Status: q.Status, Requeues: q.Requeues}
	if q.Keyed {
		for i, l := range q.FirstLanes {
			about := l.failed()
			if l.Phase == queue.Collecting {
				about += ", " + l.doing()
			}
			d.Tasks = append(d.Tasks, taskDump{i + 1, about, l.Key, l.Tasks})
		}
		d.NotShown = max(0, q.Lanes-len(q.FirstLanes))
		return d
	}
	d.NotShown = max(0, q.Tasks-len(q.FirstTasks))
	for i, t := range q.FirstTasks {
		if i == 0 {
			t.About = q.FirstLanes[0].failed()
		}
		d.Tasks = append(d.Tasks, taskDump{Index: i + 1, Description: t.About})
	}
	return d
}

// failed is the description of the first task with its failures so far.
func (l *Lane) failed() string {
	if l.Failures == 0 {
		return l.About
	}
	return fmt.Sprintf("%s:failures %d%s", l.About, l.Failures, strings.TrimSuffix(":"+l.Error, ":"))
}

func dumpAll(queues []Queue, showEmpty bool) queuesDump {
	d := queuesDump{Active: []queueDump{}}
	d.Summary.none, d.Summary.noMain = len(queues) == 0, true
	others := false
	for _, q := range queues {
		isMain := q.Name == hook.MainQueue
		others = others || !isMain
		d.Summary.Total += q.Tasks
		switch {
		case isMain:
			d.Summary.Main, d.Summary.noMain = q.Tasks, false
		case q.Tasks > 0:
			d.Summary.Others.Active++
			d.Summary.Others.Tasks += q.Tasks
		default:
			d.Summary.Others.Empty++
		}
		if q.Tasks > 0 || q.Paused || q.Requeues != nil {
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
			lane = fmt.Sprintf("key %q, %s: ", t.Key, Count(t.Tasks, "task"))
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
		fmt.Fprintf(&b, "- '%s' queue: %s.\n", hook.MainQueue, Count(s.Main, "task"))
	}
	if n := s.Others.Active + s.Others.Empty; n > 0 {
		fmt.Fprintf(&b, "- %s (%d active, %d empty): %s.\n", Count(n, "other queue"), s.Others.Active, s.Others.Empty,
			Count(s.Others.Tasks, "task"))
	}
	if s.Total == 0 {
		return b.String() + "- no tasks to handle.\n"
	}
	fmt.Fprintf(&b, "- total %s to handle.\n", Count(s.Total, "task"))
	return b.String()
}
