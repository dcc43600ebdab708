package console

import (
	"net/http"
	"slices"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// Bounds of the overview.
const (
	shownKeyed = 5
	shownLanes = 10
)

// overviewData is what the overview shows.
type overviewData struct {
	debug.Status
	Problems, Notices []debug.Trouble
	// Standby reports that another replica runs hooks.
	Standby bool
	Delayed []delayed
	// More are queues with lanes in trouble beyond those.
	More int
}

// delayed are the lanes in trouble of a queue.
type delayed struct {
	debug.Lanes
	Problem *problem
}

func (c *Console) overview(r *http.Request) (page, error) {
	d := overviewData{}
	if err := c.link.get(r.Context(), "/status.json", &d.Status); err != nil {
		return page{Title: "Overview"}, err
	}
	for _, t := range d.Troubles {
		if t.Notice {
			d.Notices = append(d.Notices, t)
		} else {
			d.Problems = append(d.Problems, t)
		}
	}
	for i := range d.Hooks {
		d.Standby = d.Standby || d.Hooks[i].State == "standby"
	}
	for _, q := range d.Queues {
		if q.Delayed == 0 {
			continue
		}
		if len(d.Delayed) == shownKeyed {
			d.More++
			continue
		}
		of, err := c.lanesOf(r, q.Name, "")
		if err != nil {
			return page{Title: "Overview"}, err
		}
		d.Delayed = append(d.Delayed, of)
	}
	slices.SortStableFunc(d.Hooks, func(a, b debug.HookStatus) int { return rank(a.State) - rank(b.State) })
	return page{Title: "Overview", content: "overview", Data: &d}, nil
}

// rank puts hooks in trouble first.
func rank(state string) int {
	if mark(state) == "✕" {
		return 0
	}
	return 1
}

// lanesOf are the lanes in trouble of a queue for the overview.
func (c *Console) lanesOf(r *http.Request, queue, key string) (d delayed, err error) {
	d.Problem, err = c.part(r, "/queue/"+segments(queue)+"/lanes.json"+queryOf("key", key), &d.Lanes)
	d.Queue = queue
	if key == "" {
		d.Lanes.Lanes = slices.DeleteFunc(d.Lanes.Lanes, func(l debug.LaneOfQueue) bool { return l.Failures == 0 })
	}
	d.Lanes.Lanes = d.Lanes.Lanes[:min(shownLanes, len(d.Lanes.Lanes))]
	return d, err
}

// queueData is what the page of a queue shows.
type queueData struct {
	Status  debug.QueueStatus
	All     debug.Lanes
	Key     string
	Problem *problem
}

func (c *Console) queue(r *http.Request) (page, error) {
	name := r.PathValue("name")
	p, s := page{Title: "Queue " + plain(name), content: "queue"}, debug.Status{}
	if err := c.link.get(r.Context(), "/status.json", &s); err != nil {
		return p, err
	}
	d, known := queueData{Status: debug.QueueStatus{Name: name}, Key: r.URL.Query().Get("key")}, false
	for _, q := range s.Queues {
		if q.Name == name {
			d.Status, known = q, true
		}
	}
	problem, err := c.part(r, "/queue/"+segments(name)+"/lanes.json"+queryOf("key", d.Key), &d.All)
	d.Problem = problem
	p.Data = &d
	if problem != nil && !known { // it is not idle: there is none
		p.content, p.Data = "problem", problem
	}
	return p, err
}
