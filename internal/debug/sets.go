package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// setStore has the sets of an installation.
type setStore interface {
	List(context.Context) ([]applyset.Set, error)
	Show(ctx context.Context, log *slog.Logger, id string) ([]applyset.MemberState, error)
	// Delete prunes a set, Adopt moves it to another hook or name.
	Delete(ctx context.Context, log *slog.Logger, id string) (deleted, released int, err error)
	Adopt(ctx context.Context, log *slog.Logger, id string, to applyset.Move) (newID string, moved int, err error)
}

// SetsOptions configure SetsTopic. The fields behind Log may be left out.
type SetsOptions struct {
	Hooks *Hooks
	Sets  setStore
	Log   *slog.Logger
	// NoOperator: it is not known which hooks are active.
	NoOperator bool
	// Fence lets only the leader send the requests of a context. Ended receives the id of a set that was deleted or moved.
	Fence func(context.Context) context.Context
	Ended func(id string)
	// Lost are the sets whose hook is gone, as of the last search.
	Lost func() []applyset.Set
	// Contested are the sets with members that are not restored now.
	Contested func() []applyset.Contested
	Names     telemetry.Names
}

type setTopic struct{ o SetsOptions }

// SetsTopic shows, deletes and moves sets of objects, and reports those whose hook is gone.
func SetsTopic(o SetsOptions) Topic {
	if o.Fence == nil {
		o.Fence = func(ctx context.Context) context.Context { return ctx }
	}
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	t := &setTopic{o}
	args, check := [][]string{{}, {"set"}}, oneOf("set", "hook", "name one set, or with --hook a hook: shell-operator sets list shows the ids")
	return Topic{
		Name: "sets", About: "Show, move and delete the sets of objects of hooks",
		Routes: []Route{
			{Method: "GET", Path: "/sets/list", About: "the sets of objects of this installation", show: t.list, Command: &Command{
				Use: "sets list", Short: "List the sets of objects of all hooks", List: listOf("sets", refreshedSlow, (*Set).cells),
				Long: "List the sets of objects of this installation: the id, the hook, the owner, and whether the " +
					"hook is gone.",
				Example: "  shell-operator sets list\n  shell-operator sets list -o json | jq '.[] | select(.hookAbsent)'",
			}},
			{Method: "GET", Path: "/sets/*", About: "a set, by its id or name, with its objects", show: t.show, Command: &Command{
				Use: "sets show SET", Short: "Show the objects of a set with their state", Args: ofOne, Takes: "a set",
				List: listIn(refreshedSlow, (*ShownSet).Table),
				Long: `Show the objects of a set: applied, drifted (another client has changed or deleted it), waiting for CRD, rejected (the last
Sync could not apply it), or unknown (the hook has not synced the set since the operator started). SET is the id, the name, or
HOOK/NAME.`,
				Example: "  shell-operator sets show pages",
			}},
			{Method: "POST", Path: "/sets/delete",
				About: "prune a set: form field `set`, or those of `hook`; with `force=true` also those of an active hook", act: t.remove,
				Command: &Command{
					Use: "sets delete [SET]", Short: "Delete the objects of a set whose hook is gone", Args: args, Check: check,
					Long: `Delete the objects of a set, or of all sets of --hook, as an empty Sync does: kinds with data, such as PersistentVolumeClaims,
are released and kept, unless the last Sync had them in pruneKinds. The set of an active hook is deleted with --force only. SET is the
id, the name, or HOOK/NAME.`,
					Example: "  shell-operator sets delete pages --dry-run\n  shell-operator sets delete --hook sites.sh",
					Flags: []Flag{{Name: "hook", Field: "hook", Usage: "delete all sets of this hook"},
						{Name: "force", Field: "force", Default: "false", Usage: "also delete sets of an active hook"}},
				}},
			{Method: "POST", Path: "/sets/adopt", About: "move sets to another hook or name: form fields `set` or `hook`, and `toHook`, " +
				"`toSet` or both; with `force=true` also those of an active hook, and to a set that has objects", act: t.adopt, Command: &Command{
				Use: "sets adopt [SET]", Short: "Move a set of objects to another hook or name", Args: args,
				Long: `Move a set of objects, or all sets of --hook, to another hook or name: after a hook was renamed, or the set in it. No object is
deleted or created. SET is the id, or the name or HOOK/NAME for the sets of all owners. An interrupted command is completed by running
it again. With --force the earlier hook may be active, the other one may be missing, and its set may have objects already.`,
				Example: "  shell-operator sets adopt --hook sites.sh --to-hook shops.sh\n  shell-operator sets adopt sites.sh/pages --to-set " +
					"articles --dry-run",
				Flags: []Flag{
					{Name: "hook", Field: "hook", Usage: "move all sets of this hook"},
					{Name: "to-hook", Field: "toHook", Usage: "hook that gets the sets; default: the same"},
					{Name: "to-set", Field: "toSet", Usage: "name of the set afterwards; default: the same"},
					{Name: "force", Field: "force", Default: "false", Usage: "also move sets of an active hook, and to a set that has objects"},
				},
				Check: func(form url.Values) error {
					switch err := check(form); {
					case err != nil:
						return err
					case form.Get("toHook") == "" && form.Get("toSet") == "":
						return errors.New("name the hook or the set that gets the objects: use --to-hook, --to-set or both")
					case form.Get("toSet") != "" && form.Get("hook") != "":
						return errors.New("--hook can have sets of several names, and --to-set would join them: name the set")
					}
					return nil
				},
			}},
		},
		Troubles: t.troubles,
		Metrics:  []prometheus.Collector{o.Names.Gauge("orphaned_sets", t.measure)},
	}
}

// Set is a set of objects of this installation.
type Set struct {
	ID   string `json:"id"`
	Name string `json:"set"`
	Hook string `json:"hook"`
	// Owner is its kind and name, empty without one.
	Owner      string `json:"owner,omitempty"`
	HookAbsent bool   `json:"hookAbsent"`
	// Problem is why this version cannot use the record.
	Problem string `json:"problem,omitempty"`
}

// Actions are what can be done with the set.
func (s *Set) Actions() []Action {
	move := acts("sets/adopt", "set", s.ID)
	move.Ask = "toHook"
	return []Action{acts("sets/delete", "set", s.ID), move}
}

func (s *Set) cells() []Cell {
	problem := ""
	switch {
	case s.Problem != "":
		problem = "its record " + s.Problem
	case s.HookAbsent:
		problem = "the hook is gone"
	}
	return []Cell{asSet.of("SET", s.ID), asText.of("NAME", s.Name), asHook.of("HOOK", s.Hook), asText.of("OWNER", s.Owner),
		asFault.of("PROBLEM", problem), asActions.of("ACTIONS", s.Actions())}
}

// ShownSet is a set with its objects.
type ShownSet struct {
	Set
	Objects []applyset.MemberState `json:"objects"`
}

// Table are the objects as rows.
func (s *ShownSet) Table() Table { return TableOf("objects", s.Objects, memberCells) }

func memberCells(m *applyset.MemberState) []Cell {
	state := string(m.State)
	if m.Kept {
		state += ", not deleted with the set"
	}
	return []Cell{asObject.of("OBJECT", strings.ReplaceAll(m.Kind+"/"+m.Namespace+"/"+m.Name, "//", "/")), asState.of("STATE", state),
		asText.of("REASON", m.Reason)}
}

// all returns the sets, with what is known of their hooks.
func (t *setTopic) all(ctx context.Context) (all []Set, err error) {
	hooks, err := t.o.Hooks.all()
	if err != nil {
		return nil, err
	}
	sets, err := t.o.Sets.List(ctx)
	known := !t.o.NoOperator
	for _, s := range sets {
		shown := Set{ID: s.ID, Name: s.Name, Hook: s.Hook, Problem: s.Problem}
		if s.Owner != nil {
			shown.Owner = s.Owner.String()
		}
		shown.HookAbsent = known && !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == s.Hook })
		all = append(all, shown)
	}
	return all, err
}

// matching are the sets that match, at least one; what names them in the error.
func (t *setTopic) matching(ctx context.Context, what string, match func(*Set) bool) ([]Set, error) {
	all, err := t.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s Set) bool { return !match(&s) })
	if len(all) == 0 {
		return nil, refuse(http.StatusBadRequest, "there is no set %s", what).hint("shell-operator sets list shows all")
	}
	return all, nil
}

// named finds the sets that a request names by their id, their name, or hook and name: of several owners, or of several hooks.
func (t *setTopic) named(ctx context.Context, name string) ([]Set, error) {
	found, err := t.matching(ctx, strconv.Quote(name), func(s *Set) bool {
		return s.ID == name || s.Name == name || s.Hook+"/"+s.Name == name
	})
	if i := slices.IndexFunc(found, func(s Set) bool { return s.ID == name }); i >= 0 {
		found = found[i : i+1]
	}
	return found, err
}

// one finds the only set that a request names.
func (t *setTopic) one(ctx context.Context, name string) ([]Set, error) {
	found, err := t.named(ctx, name)
	if len(found) > 1 {
		return nil, refuse(http.StatusBadRequest, "%d sets are called %q", len(found), name).
			hint("name one by its id, shell-operator sets list shows the ids")
	}
	return found, err
}

// chosen are the sets of the hook that a form names, or those that named finds for its set.
func (t *setTopic) chosen(r request, named func(context.Context, string) ([]Set, error)) ([]Set, error) {
	if of := r.PostForm.Get("hook"); of != "" {
		return t.matching(r.Context(), fmt.Sprintf("of a hook %q", of), func(s *Set) bool { return s.Hook == of })
	}
	return named(r.Context(), r.PostForm.Get("set"))
}

func (t *setTopic) list(r request) (answer, error) {
	all, err := t.all(r.Context())
	if err != nil {
		return answer{}, err
	}
	return answer{value: append([]Set{}, all...)}, nil
}

func (t *setTopic) show(r request) (answer, error) {
	found, err := t.one(r.Context(), r.name)
	if err != nil {
		return answer{}, err
	}
	s := found[0]
	members, err := t.o.Sets.Show(r.Context(), t.o.Log, s.ID)
	if err != nil {
		return answer{}, err
	}
	return answer{value: ShownSet{s, append([]applyset.MemberState{}, members...)}}, nil
}

// remove prunes a set, or all sets of a hook.
func (t *setTopic) remove(r request) (acted, error) {
	chosen, err := t.chosen(r, t.one)
	if err != nil {
		return acted{}, err
	}
	if s := chosen[0]; !s.HookAbsent && !t.o.NoOperator && r.PostForm.Get("force") != "true" {
		return acted{}, refuse(http.StatusConflict, "the hook %q of set %s is active", s.Hook, s.ID).
			hint("remove the hook first, or use --force; its next run creates the objects again")
	}
	var lines []string
	for _, s := range chosen {
		deleted, released := 0, 0
		if r.dryRun {
			members, err := t.o.Sets.Show(r.Context(), t.o.Log, s.ID)
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
			if deleted, released, err = t.o.Sets.Delete(t.o.Fence(r.Context()), t.o.Log, s.ID); err != nil {
				return stopped(lines, fmt.Errorf("set %s: %w", s.ID, err))
			}
			t.o.Ended(s.ID)
		}
		line := fmt.Sprintf("set %s is deleted with %s", s.ID, Count(deleted, "object"))
		if released > 0 {
			line += fmt.Sprintf("; %s released and kept", Count(released, "object"))
		}
		lines = append(lines, line)
	}
	return done(len(lines), "%s", strings.Join(lines, "\n")), nil
}

// stopped is the result of an action on several sets that has failed for one: what was done before, and the error.
func stopped(lines []string, err error) (acted, error) {
	return done(len(lines), "%s", strings.Join(lines, "\n")), conflict(strings.Join(append(lines, ""), "; "), err)
}

// adopt moves sets to another hook or name: all sets of a hook, or one, of all owners.
func (t *setTopic) adopt(r request) (acted, error) {
	form := r.PostForm
	toHook, toSet, force := form.Get("toHook"), form.Get("toSet"), form.Get("force") == "true"
	chosen, err := t.chosen(r, t.named)
	if err != nil {
		return acted{}, err
	}
	hooks, err := t.o.Hooks.all()
	if err != nil {
		return acted{}, err
	}
	first := chosen[0]
	toHook = cmp.Or(toHook, first.Hook)
	switch {
	case slices.ContainsFunc(chosen, func(s Set) bool { return s.Hook != first.Hook }):
		return acted{}, refuse(http.StatusBadRequest, "several hooks have sets called %q", form.Get("set")).hint("name them as HOOK/NAME")
	case force || t.o.NoOperator || toHook == first.Hook:
	case !first.HookAbsent:
		return acted{}, refuse(http.StatusConflict, "the hook %q of set %s is active", first.Hook, first.ID).
			hint("remove the hook first, or use --force; its next run fails, because the objects belong to another set")
	case !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == toHook }):
		return acted{}, refuse(http.StatusConflict, "the operator has no hook %q that could get the sets", toHook).
			hint("add the hook first, or use --force")
	}
	var lines []string
	for _, s := range chosen {
		to := applyset.Move{Hook: toHook, Name: cmp.Or(toSet, s.Name), Join: force, Check: r.dryRun}
		id, moved, err := t.o.Sets.Adopt(t.o.Fence(r.Context()), t.o.Log, s.ID, to)
		if err != nil {
			return stopped(lines, err)
		}
		if !r.dryRun {
			t.o.Ended(s.ID)
		}
		lines = append(lines, fmt.Sprintf("set %s is moved to %s, set %q of hook %q, with %s", s.ID, id, to.Name, to.Hook,
			Count(moved, "object")))
	}
	return done(len(lines), "%s", strings.Join(lines, "\n")), nil
}

// shownLost limits the ids in one text.
const shownLost = 5

// lost are the ids of the sets whose hook is gone, by hook.
func (t *setTopic) lost() map[string][]string {
	ids := map[string][]string{}
	for _, s := range t.o.Lost() {
		ids[s.Hook] = append(ids[s.Hook], s.ID)
	}
	return ids
}

// lostText names sets whose hook is gone, the first ones of many.
func lostText(ids []string) string {
	text := strings.Join(ids[:min(len(ids), shownLost)], ", ")
	if more := len(ids) - shownLost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("its hook is gone, and %s of objects left: %s", Count(len(ids), "set"), text)
}

func (t *setTopic) troubles() (all []Trouble) {
	lost := t.lost()
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		subject := name
		if !hook.IsName(name) {
			subject = strconv.Quote(name)
		}
		all = append(all, Trouble{Kind: InSet, part: true, Hooks: []string{name}, Subject: subject, Problem: lostText(lost[name]),
			Hint: "bring the hook back, or shell-operator sets adopt or delete --hook " + hook.Word(name)})
	}
	for _, c := range t.o.Contested() {
		all = append(all, Trouble{Kind: InSet, part: true, Hooks: []string{c.Hook}, Subject: fmt.Sprintf("%s, set %q", c.Hook, c.Set),
			Problem: contested(&c),
			Hint:    "shell-operator sets show " + c.ID})
	}
	return all
}

// shownNotes limits the objects of a contested set.
const shownNotes = 3

func contested(c *applyset.Contested) string {
	text := strings.Join(c.Notes[:min(len(c.Notes), shownNotes)], "; ")
	if more := len(c.Notes) - shownNotes; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// measure counts the sets of each hook that is gone. A text that is no name of a hook is no label.
func (t *setTopic) measure(set telemetry.Set) {
	invalid := 0
	for name, ids := range t.lost() {
		if hook.IsName(name) {
			set(len(ids), name)
		} else {
			invalid += len(ids)
		}
	}
	if invalid > 0 {
		set(invalid, "invalid name")
	}
}
