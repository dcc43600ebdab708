package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect"
)

// hookData is what the page of a hook shows.
type hookData struct {
	Name   string
	Why    debug.Explanation
	Status *debug.HookStatus
	Paused bool
	Lanes  []runsOfLane
	Span   span
	// RunsProblem is why there are no runs.
	RunsProblem *problem
	Permissions []permission
}

// runsOfLane are the runs of a lane, the latest first.
type runsOfLane struct {
	Queue, Key string
	Runs       []history.Run
}

// permission is what the operations of the known runs needed for a kind.
type permission struct {
	Kind, Namespaces, Operations, Verbs string
}

// spanLimit is the longest time that a waterfall shows.
const spanLimit = time.Hour

func (c *Console) hook(r *http.Request) (page, error) {
	name := r.PathValue("name")
	p := page{Title: "Hook " + plain(name), content: "hook"}
	d := hookData{Name: name}
	if err := c.link.get(r.Context(), "/hook/"+segments(name)+"/why.json", &d.Why); err != nil {
		return p, err
	}
	d.Name = d.Why.Hook // the request may have its beginning
	p.Title = "Hook " + plain(d.Name)
	var s debug.Status
	if err := c.link.get(r.Context(), "/status.json", &s); err != nil {
		return p, err
	}
	for i := range s.Hooks {
		if s.Hooks[i].Name == d.Name {
			d.Status = &s.Hooks[i]
		}
	}
	for _, t := range s.Troubles {
		d.Paused = d.Paused || t.Kind == debug.IsPaused && slices.Contains(t.Hooks, d.Name)
	}
	var runs []history.Run
	problem, err := c.part(r, "/hook/"+segments(d.Name)+"/runs.json", &runs)
	if err != nil {
		return p, err
	}
	d.RunsProblem, d.Span = problem, spanOf(runs, spanLimit)
	d.Lanes, d.Permissions = byLane(runs), permissionsOf(runs)
	p.Data = d
	return p, nil
}

// byLane groups runs, in the order of the latest run of each lane.
func byLane(runs []history.Run) (all []runsOfLane) {
	for _, one := range runs {
		i := slices.IndexFunc(all, func(l runsOfLane) bool { return l.Queue == one.Queue && l.Key == one.Key })
		if i < 0 {
			i, all = len(all), append(all, runsOfLane{Queue: one.Queue, Key: one.Key})
		}
		all[i].Runs = append(all[i].Runs, one)
	}
	return all
}

// permissionsOf are the verbs that the operations of runs needed, by kind.
func permissionsOf(runs []history.Run) (all []permission) {
	type sets struct{ namespaces, operations, verbs map[string]bool }
	kinds := map[string]sets{}
	for _, one := range runs {
		for _, p := range one.Patches {
			verbs := effect.ParseOperation(p.Operation).Verbs()
			if len(verbs) == 0 {
				continue
			}
			s, known := kinds[p.Kind]
			if !known {
				s = sets{map[string]bool{}, map[string]bool{}, map[string]bool{}}
				kinds[p.Kind] = s
			}
			s.namespaces[cmp.Or(p.Namespace, "the cluster")], s.operations[p.Operation] = true, true
			for _, verb := range verbs {
				s.verbs[verb] = true
			}
		}
	}
	list := func(of map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(of)), ", ") }
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		s := kinds[kind]
		all = append(all, permission{kind, list(s.namespaces), list(s.operations), list(s.verbs)})
	}
	return all
}
