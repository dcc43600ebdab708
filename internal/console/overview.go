package console

import (
	"net/http"
	"slices"

	"github.com/shell-operator/shell-operator/internal/debug"
)

// overviewData is what the overview shows.
type overviewData struct {
	debug.Status
	Problems, Notices []debug.Trouble
}

func (c *Console) overview(r *http.Request) (page, error) {
	d := overviewData{}
	if err := c.link.get(r.Context(), "/status.json", &d.Status); err != nil {
		return page{Title: "Overview"}, err
	}
	d.Problems, d.Notices = d.Lists()
	slices.SortStableFunc(d.Hooks, func(a, b debug.HookStatus) int { return rank(a.State) - rank(b.State) })
	return page{Title: "Overview", content: "overview", Data: &d, Status: &d.Status}, nil
}

// rank puts hooks in trouble first.
func rank(state string) int {
	if mark(state) == "✕" {
		return 0
	}
	return 1
}

// queueData is what the page of a queue shows.
type queueData struct {
	Status  debug.Queue
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
	d, known := queueData{Status: debug.Queue{Name: name}, Key: r.URL.Query().Get("key")}, false
	for _, q := range s.Queues {
		if q.Name == name {
			d.Status, known = q, true
		}
	}
	p.Status = &s
	problem, err := c.part(r, "/queue/"+segments(name)+"/lanes.json"+queryOf("key", d.Key), &d.All)
	d.Problem = problem
	p.Data = &d
	if problem != nil && !known { // it is not idle: there is none
		p.content, p.Data = "problem", problem
	}
	return p, err
}
