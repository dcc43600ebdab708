package console

import (
	"net/http"
	"strings"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// searchData is what the page of a search shows.
type searchData struct {
	Query   string
	Hooks   []string
	Runs    []history.Run
	Object  string
	Queues  []string
	Lanes   []delayed
	Problem *problem
	Nothing bool
}

// shownFound limits each list of a search.
const shownFound = 50

func (c *Console) search(r *http.Request) (page, error) {
	d := searchData{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	p := page{Title: "Search", content: "search", Still: true}
	if d.Query == "" {
		p.Data = d
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
	for _, h := range s.Hooks {
		if has(h.Name) && len(d.Hooks) < shownFound {
			d.Hooks = append(d.Hooks, h.Name)
		}
	}
	var runs []history.Run
	problem, err := c.part(r, "/run/list.json?all=true", &runs)
	if err != nil {
		return p, err
	}
	d.Problem = problem
	for _, one := range runs {
		if (one.ID == d.Query || one.Task == d.Query || has(strings.Join(one.Why, "\n"))) && len(d.Runs) < shownFound {
			d.Runs = append(d.Runs, one)
		}
	}
	for _, q := range s.Queues {
		if has(q.Name) && len(d.Queues) < shownFound {
			d.Queues = append(d.Queues, q.Name)
		}
		if q.Lanes > 0 && len(d.Lanes) < shownKeyed {
			of, err := c.lanesOf(r, q.Name, d.Query)
			if err != nil {
				return p, err
			}
			if len(of.Lanes) > 0 {
				d.Lanes = append(d.Lanes, of)
			}
		}
	}
	d.Nothing = d.Object == "" && len(d.Hooks)+len(d.Runs)+len(d.Queues)+len(d.Lanes) == 0
	p.Data = d
	return p, nil
}
