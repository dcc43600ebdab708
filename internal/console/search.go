package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// searchData is what the page of a search shows: lists of what is found, without those that are empty. What is called exactly as the query
// is opened, if it is one.
type searchData struct {
	Query   string
	Found   []debug.Table
	Problem *problem
	exact   []string
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
	var s debug.Status
	if err := c.link.get(r.Context(), "/status.json", &s); err != nil {
		return p, err
	}
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(d.Query)) }
	add := func(t debug.Table, pages string) {
		if slices.Contains(t.Names(), d.Query) {
			d.exact = append(d.exact, pages+segments(d.Query))
		}
		if t.Rows = t.Rows[:min(shownFound, len(t.Rows))]; len(t.Rows) > 0 {
			d.Found = append(d.Found, t)
		}
	}
	named := func(t debug.Table, pages string) {
		t.Rows = slices.DeleteFunc(t.Rows, func(row []debug.Cell) bool { return !has(row[0].Text(c.o.now())) })
		add(t, pages)
	}
	p.Status = &s
	named(s.HookTable(), "/hooks/")
	named(s.QueueTable(), "/queues/")
	var runs []history.Run
	var err error
	d.Problem, err = c.part(r, "/run/list.json?all=true", &runs)
	add(debug.RunTable(slices.DeleteFunc(runs, func(one history.Run) bool {
		return one.ID != d.Query && one.Task != d.Query && !has(strings.Join(one.Why, "\n"))
	})), "/runs/")
	if n := strings.Count(d.Query, "/"); err == nil && len(d.exact) == 0 && (n == 1 || n == 2) {
		var unknown *problem
		switch unknown, err = c.part(r, "/object/"+segments(d.Query)+".json", &debug.ObjectState{}); {
		case unknown == nil:
			d.exact = append(d.exact, "/objects/"+segments(d.Query))
		case len(d.Found) == 0:
			d.Problem = unknown
		}
	}
	if len(d.exact) == 1 {
		p.To = d.exact[0]
	}
	return p, err
}
