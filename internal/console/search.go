package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// searchData is what the page of a search shows: lists of what is found, without those that are empty.
type searchData struct {
	Query, Object string
	Found         []debug.Table
	Problem       *problem
}

// shownFound limits each list of a search.
const shownFound = 50

func (c *Console) search(r *http.Request) (page, error) {
	d := searchData{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	p := page{Title: "Search", content: "search", Still: true, Data: &d}
	if d.Query == "" {
		return p, nil
	}
	p.Title = "Search for " + plain(d.Query)
	if parts := strings.Split(d.Query, "/"); len(parts) == 2 || len(parts) == 3 {
		d.Object = d.Query
	}
	var s debug.Status
	if err := c.link.get(r.Context(), "/status.json", &s); err != nil {
		return p, err
	}
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(d.Query)) }
	add := func(t debug.Table) {
		if t.Rows = t.Rows[:min(shownFound, len(t.Rows))]; len(t.Rows) > 0 {
			d.Found = append(d.Found, t)
		}
	}
	named := func(t debug.Table) {
		t.Rows = slices.DeleteFunc(t.Rows, func(row []debug.Cell) bool { return !has(row[0].Text(c.o.now())) })
		add(t)
	}
	named(s.HookTable())
	named(s.QueueTable())
	for i, keyed := 0, 0; i < len(s.Queues) && keyed < shownKeyed; i++ {
		if s.Queues[i].Lanes == 0 {
			continue
		}
		keyed++
		of, err := c.lanesOf(r, s.Queues[i].Name, d.Query)
		if err != nil {
			return p, err
		}
		add(of.Table())
	}
	var runs []history.Run
	var err error
	d.Problem, err = c.part(r, "/run/list.json?all=true", &runs)
	add(runsOf(slices.DeleteFunc(runs, func(one history.Run) bool {
		return one.ID != d.Query && one.Task != d.Query && !has(strings.Join(one.Why, "\n"))
	})).Table)
	return p, err
}
