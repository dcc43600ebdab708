package console

import (
	"net/http"
	"slices"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// hookData is what the page of a hook shows.
type hookData struct {
	Name   string
	Why    debug.Explanation
	Status *debug.HookStatus
	Paused bool
	// RunsProblem is why there are no runs, SentProblem why there are no operations.
	RunsProblem, SentProblem *problem
	Runs, Bindings, Workers  debug.Table
	// Sent are the operations on objects, with the permissions that they needed.
	Sent debug.Table
}

func (c *Console) hook(r *http.Request) (page, error) {
	name := r.PathValue("name")
	p, d, s, runs, sent := page{Title: "Hook " + plain(name), content: "hook"}, hookData{}, debug.Status{}, []history.Run{}, debug.SentList{}
	if err := c.link.get(r.Context(), "/hook/"+segments(name)+"/why.json", &d.Why); err != nil {
		return p, err
	}
	d.Name = d.Why.Hook // the request may have its beginning
	p.Title = "Hook " + plain(d.Name)
	if err := c.link.get(r.Context(), "/status.json", &s); err != nil {
		return p, err
	}
	p.Status = &s
	if s.Hooks = slices.DeleteFunc(s.Hooks, func(h debug.HookStatus) bool { return h.Name != d.Name }); len(s.Hooks) > 0 {
		d.Status = &s.Hooks[0]
	}
	d.Bindings, d.Workers = s.BindingTable().Without("HOOK"), s.WorkerTable().Without("HOOK")
	d.Paused = slices.ContainsFunc(s.Troubles, func(t debug.Trouble) bool {
		return t.Kind == debug.IsPaused && slices.Contains(t.Hooks, d.Name)
	})
	var err error
	if d.RunsProblem, err = c.part(r, "/run/list.json"+queryOf("hook", d.Name), &runs); err != nil {
		return p, err
	}
	if d.SentProblem, err = c.part(r, "/operation/list.json", &sent); err != nil {
		return p, err
	}
	d.Runs, d.Sent = debug.RunTable(runs).Without("HOOK"), sent.Table(d.Name)
	p.Data = &d
	return p, nil
}
