package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Set is a set of objects of this installation.
type Set struct {
	ID   string `json:"id"`
	Name string `json:"set"`
	Hook string `json:"hook"`
	// Owner is its kind and name, empty without one. Namespace is that of the record of the set.
	Owner     string `json:"owner,omitempty"`
	Namespace string `json:"namespace"`
	// Members is the number of objects, if it is known.
	Members    *int `json:"members,omitempty"`
	HookAbsent bool `json:"hookAbsent"`
	// Problem is why this version cannot use the record.
	Problem string `json:"problem,omitempty"`
}

// SetMember is an object of a set.
type SetMember struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Reason    string `json:"reason,omitempty"`
	// Kept objects are not deleted with the set.
	Kept bool `json:"kept,omitempty"`
}

// shownSet is a set with its objects.
type shownSet struct {
	Set
	Objects []SetMember `json:"objects"`
}

func (s *Set) line() string {
	text := fmt.Sprintf("%s  set %q of hook %q", s.ID, s.Name, s.Hook)
	if s.Owner != "" {
		text += ", owner " + s.Owner
	}
	switch {
	case s.Problem != "":
		text += ": its record " + s.Problem
	case s.Members != nil:
		text += ": " + count(*s.Members, "object")
	}
	if s.HookAbsent {
		text += ", the hook is gone"
	}
	return text + "\n"
}

// sets returns the sets, with what is known of their hooks.
func (a *API) sets(ctx context.Context) (all []Set, err error) {
	hooks, err := a.hooks()
	if err != nil {
		return nil, err
	}
	all, err = a.Operator.Sets(ctx)
	known := !a.NoOperator
	if known {
		_, others := a.Operator.Others()
		known = len(others) == 0 // they may have the hooks
	}
	for i := range all {
		all[i].HookAbsent = known && !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == all[i].Hook })
	}
	return all, err
}

// oneSet finds the set that a request names by its id, its name, or hook and name.
func (a *API) oneSet(ctx context.Context, name string) (Set, error) {
	found, err := a.namedSets(ctx, name)
	switch {
	case err != nil:
		return Set{}, err
	case len(found) > 1:
		return Set{}, refuse(http.StatusBadRequest, "%d sets are called %q", len(found), name).hint("name one by its id, shell-operator sets list shows the ids")
	}
	return found[0], nil
}

// namedSets finds all sets that a request names, at least one: of several owners, or of several hooks.
func (a *API) namedSets(ctx context.Context, name string) (found []Set, err error) {
	all, err := a.sets(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		switch name {
		case s.ID:
			return []Set{s}, nil
		case s.Name, s.Hook + "/" + s.Name:
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, refuse(http.StatusBadRequest, "there is no set %q", name).hint("shell-operator sets list shows all")
	}
	return found, nil
}

// setsOf finds the sets of a hook, at least one.
func (a *API) setsOf(ctx context.Context, name string) ([]Set, error) {
	all, err := a.sets(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s Set) bool { return s.Hook != name })
	if len(all) == 0 {
		return nil, refuse(http.StatusBadRequest, "there is no set of a hook %q", name).hint("shell-operator sets list shows all")
	}
	return all, nil
}

func setsList(a *API, r request) (answer, error) {
	all, err := a.sets(r.Context())
	if err != nil {
		return answer{}, err
	}
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.line())
	}
	if len(all) == 0 {
		all = []Set{}
		b.WriteString("no sets\n")
	}
	return answer{value: all, text: b.String()}, nil
}

func setShow(a *API, r request) (answer, error) {
	decoded, _ := url.PathUnescape(r.name)
	s, err := a.oneSet(r.Context(), decoded)
	if err != nil {
		return answer{}, err
	}
	members, err := a.Operator.SetMembers(r.Context(), s)
	if err != nil {
		return answer{}, err
	}
	var b strings.Builder
	b.WriteString(s.line())
	for _, m := range members {
		fmt.Fprintf(&b, "  %s %s: %s", m.Kind, strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"), m.State)
		if m.Reason != "" {
			b.WriteString(", " + oneLine(m.Reason))
		}
		if m.Kept {
			b.WriteString(", not deleted with the set")
		}
		b.WriteString("\n")
	}
	return answer{value: shownSet{s, append([]SetMember{}, members...)}, text: b.String()}, nil
}

// setsDelete prunes a set, or all sets of a hook.
func setsDelete(a *API, r request, dryRun bool) (acted, error) {
	var chosen []Set
	if of := r.PostForm.Get("hook"); of != "" {
		all, err := a.setsOf(r.Context(), of)
		if err != nil {
			return acted{}, err
		}
		chosen = all
	} else {
		s, err := a.oneSet(r.Context(), r.PostForm.Get("set"))
		if err != nil {
			return acted{}, err
		}
		chosen = []Set{s}
	}
	if s := chosen[0]; !s.HookAbsent && !a.NoOperator && r.PostForm.Get("force") != "true" {
		return acted{}, refuse(http.StatusConflict, "the hook %q of set %s is active", s.Hook, s.ID).hint("remove the hook first, or use --force; its next run creates the objects again")
	}
	var lines []string
	for _, s := range chosen {
		deleted, released := 0, 0
		if dryRun {
			members, err := a.Operator.SetMembers(r.Context(), s)
			if err != nil {
				return acted{}, err
			}
			for _, m := range members {
				if m.Kept {
					released++
				} else {
					deleted++
				}
			}
		} else {
			var err error
			if deleted, released, err = a.Actions.DeleteSet(r.Context(), s); err != nil {
				return stopped(lines, fmt.Errorf("set %s: %w", s.ID, err))
			}
		}
		line := fmt.Sprintf("set %s is deleted with %s", s.ID, count(deleted, "object"))
		if released > 0 {
			line += fmt.Sprintf("; %s released and kept", count(released, "object"))
		}
		lines = append(lines, line)
	}
	return acted{Count: len(lines), Message: strings.Join(lines, "\n")}, nil
}

// stopped is the result of an action on several sets that has failed for one: what was done before, and the error.
func stopped(done []string, err error) (acted, error) {
	return acted{Count: len(done), Message: strings.Join(done, "\n")}, conflict(strings.Join(append(done, ""), "; "), err)
}

// setsAdopt moves sets to another hook or name: all sets of a hook, or one, of all owners.
func setsAdopt(a *API, r request, dryRun bool) (acted, error) {
	form := r.PostForm
	toHook, toSet, force := form.Get("toHook"), form.Get("toSet"), form.Get("force") == "true"
	choose, name := a.namedSets, form.Get("set")
	if of := form.Get("hook"); of != "" {
		choose, name = a.setsOf, of
	}
	chosen, err := choose(r.Context(), name)
	if err != nil {
		return acted{}, err
	}
	hooks, err := a.hooks()
	if err != nil {
		return acted{}, err
	}
	first := chosen[0]
	toHook = cmp.Or(toHook, first.Hook)
	switch {
	case slices.ContainsFunc(chosen, func(s Set) bool { return s.Hook != first.Hook }):
		return acted{}, refuse(http.StatusBadRequest, "several hooks have sets called %q", name).hint("name them as HOOK/NAME")
	case force || a.NoOperator || toHook == first.Hook:
	case !first.HookAbsent:
		return acted{}, refuse(http.StatusConflict, "the hook %q of set %s is active", first.Hook, first.ID).hint("remove the hook first, or use --force; its next run fails, because the objects belong to another set")
	case !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == toHook }):
		return acted{}, refuse(http.StatusConflict, "the operator has no hook %q that could get the sets", toHook).hint("add the hook first, or use --force")
	}
	var lines []string
	for _, s := range chosen {
		to := Set{Hook: toHook, Name: cmp.Or(toSet, s.Name)}
		id, moved, err := a.Actions.AdoptSet(r.Context(), s, to, force, dryRun)
		if err != nil {
			return stopped(lines, err)
		}
		lines = append(lines, fmt.Sprintf("set %s is moved to %s, set %q of hook %q, with %s", s.ID, id, to.Name, to.Hook, count(moved, "object")))
	}
	return acted{Count: len(lines), Message: strings.Join(lines, "\n")}, nil
}

// shownLost limits the ids in one text.
const shownLost = 5

// lostSets are the sets that hooks have left, one reason for each hook.
func lostSets(o Operator) (hooks []string, reasons map[string]Reason) {
	ids := map[string][]string{}
	for _, s := range o.LostSets() {
		if ids[s.Hook] == nil {
			hooks = append(hooks, s.Hook)
		}
		ids[s.Hook] = append(ids[s.Hook], s.ID)
	}
	reasons = map[string]Reason{}
	for name, of := range ids {
		text := strings.Join(of[:min(len(of), shownLost)], ", ")
		if more := len(of) - shownLost; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		reasons[name] = Reason{BySet, false, fmt.Sprintf("its hook is gone, and %s of objects left: %s", count(len(of), "set"), text), "bring the hook back, or shell-operator sets adopt or delete --hook " + hook.Word(name)}
	}
	return hooks, reasons
}
