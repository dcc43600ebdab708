package debug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// setStore has the sets of an installation.
type setStore interface {
	List(context.Context) ([]applyset.Set, error)
	// Count sets the numbers of members.
	Count(context.Context, []applyset.Set)
	Show(ctx context.Context, log *slog.Logger, namespace, id string) ([]applyset.MemberState, error)
	// Delete prunes a set, Adopt moves it to another hook or name.
	Delete(ctx context.Context, log *slog.Logger, namespace, id string) (deleted, released int, err error)
	Adopt(ctx context.Context, log *slog.Logger, namespace, id string, to applyset.Move) (newID string, moved int, err error)
}

// SetsOptions are those of SetsTopic. Those behind Log may be left out.
type SetsOptions struct {
	Hooks *Hooks
	Sets  setStore
	Log   *slog.Logger
	// NoOperator: it is not known which hooks are active.
	NoOperator bool
	// Others are the other operators of the installation, which may have the hooks.
	Others func() []string
	// Fence makes the requests of a context those of the leader. Ended receives the id of a set that was deleted or moved.
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
	t := &setTopic{o}
	ids := Names{Path: "/sets/list.json", Key: "id", About: []string{"hook", "owner"}}
	hooksOfSets := Names{Path: "/sets/list.json", Key: "hook"}
	args, check := [][]string{{}, {"set"}}, oneOf("set", "hook", "name one set, or with --hook a hook: shell-operator sets list shows the ids")
	return Topic{
		Name: "sets", About: "Show, move and delete the sets of objects of hooks",
		Routes: []Route{
			{Method: "GET", Path: "/sets/list", About: "the sets of objects of this installation", show: t.list, Command: &Command{
				Use: "sets list", Short: "List the sets of objects of all hooks", List: setList,
				Long: "List the sets of objects of this installation: the id, the hook, the owner, the number of objects, " +
					"and whether the hook is gone.",
				Example: "  shell-operator sets list\n  shell-operator sets list -o json | jq '.[] | select(.hookAbsent)'",
			}},
			{Method: "GET", Path: "/sets/*", About: "a set, by its id or name, with its objects", show: t.show, Command: &Command{
				Use: "sets show SET", Short: "Show the objects of a set with their state", Args: ofOne, Takes: "a set", Names: ids,
				Long: `Show the objects of a set: applied, drifted (another client has changed or deleted it), waiting for CRD, rejected (the last
Sync could not apply it), or unknown (the hook has not synced the set since the operator started). SET is the id, the name, or
HOOK/NAME.`,
				Example: "  shell-operator sets show pages",
			}},
			{Method: "POST", Path: "/sets/delete",
				About: "prune a set: form field `set`, or those of `hook`; with `force=true` also those of an active hook", act: t.remove,
				Command: &Command{
					Use: "sets delete [SET]", Short: "Delete the objects of a set whose hook is gone", Args: args, Check: check, Names: ids,
					Long: `Delete the objects of a set, or of all sets of --hook, as an empty Sync does: kinds with data, such as PersistentVolumeClaims,
are released and kept, unless the last Sync had them in pruneKinds. The set of an active hook is deleted with --force only. SET is the
id, the name, or HOOK/NAME.`,
					Example: "  shell-operator sets delete pages --dry-run\n  shell-operator sets delete --hook sites.sh",
					Flags: []Flag{{Name: "hook", Field: "hook", Usage: "delete all sets of this hook", Names: hooksOfSets},
						{Name: "force", Field: "force", Default: "false", Usage: "also delete sets of an active hook"}},
				}},
			{Method: "POST", Path: "/sets/adopt", About: "move sets to another hook or name: form fields `set` or `hook`, and `toHook`, " +
				"`toSet` or both; with `force=true` also those of an active hook, and to a set that has objects", act: t.adopt, Command: &Command{
				Use: "sets adopt [SET]", Short: "Move a set of objects to another hook or name", Args: args, Names: ids,
				Long: `Move a set of objects, or all sets of --hook, to another hook or name: after a hook was renamed, or the set in it. No object is
deleted or created. SET is the id, or the name or HOOK/NAME for the sets of all owners. An interrupted command is completed by running
it again. With --force the earlier hook may be active, the other one may be missing, and its set may have objects already.`,
				Example: "  shell-operator sets adopt --hook sites.sh --to-hook shops.sh\n  shell-operator sets adopt sites.sh/pages --to-set " +
					"articles --dry-run",
				Flags: []Flag{
					{Name: "hook", Field: "hook", Usage: "move all sets of this hook", Names: hooksOfSets},
					{Name: "to-hook", Field: "toHook", Usage: "hook that gets the sets; default: the same", Names: HookNames},
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
		Reasons: func(h *hook.Hook, _ time.Time) (reasons []Reason) {
			for _, c := range o.Contested() {
				if c.Hook == h.Name {
					reasons = append(reasons, Reason{BySet, false, fmt.Sprintf("set %q: %s", c.Set, contested(&c)), "shell-operator sets show " + c.ID})
				}
			}
			return reasons
		},
		Left: t.left, Troubles: t.troubles,
		Metrics: []prometheus.Collector{o.Names.Gauge("orphaned_sets", t.measure)},
	}
}

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

// setList is the list of sets as a table.
var setList = listOf("no sets", refreshedSlow,
	column[Set]{name: "SET", cell: func(s *Set, _ time.Time) string { return s.ID }},
	column[Set]{name: "NAME", cell: func(s *Set, _ time.Time) string { return s.Name }},
	column[Set]{name: "HOOK", cell: func(s *Set, _ time.Time) string { return s.Hook }},
	column[Set]{name: "OWNER", cell: func(s *Set, _ time.Time) string { return cmp.Or(s.Owner, "-") }},
	column[Set]{name: "OBJECTS", cell: func(s *Set, _ time.Time) string {
		if s.Members == nil {
			return "-"
		}
		return strconv.Itoa(*s.Members)
	}},
	column[Set]{name: "NAMESPACE", wide: true, cell: func(s *Set, _ time.Time) string { return s.Namespace }},
	column[Set]{name: "PROBLEM", cell: func(s *Set, _ time.Time) string {
		switch {
		case s.Problem != "":
			return "its record " + s.Problem
		case s.HookAbsent:
			return "the hook is gone"
		}
		return "-"
	}},
)

// ShownSet is a set with its objects.
type ShownSet struct {
	Set
	Objects []applyset.MemberState `json:"objects"`
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

func (t *setTopic) fenced(ctx context.Context) context.Context {
	if t.o.Fence == nil {
		return ctx
	}
	return t.o.Fence(ctx)
}

func (t *setTopic) ended(id string) {
	if t.o.Ended != nil {
		t.o.Ended(id)
	}
}

// all returns the sets, with what is known of their hooks.
func (t *setTopic) all(ctx context.Context) (all []Set, err error) {
	hooks, err := t.o.Hooks.all()
	if err != nil {
		return nil, err
	}
	sets, err := t.o.Sets.List(ctx)
	t.o.Sets.Count(ctx, sets)
	known := !t.o.NoOperator && len(t.o.Others()) == 0 // they may have the hooks
	for _, s := range sets {
		shown := Set{ID: s.ID, Name: s.Name, Hook: s.Hook, Namespace: s.Namespace, Problem: s.Problem}
		if s.Owner != nil {
			shown.Owner = s.Owner.String()
		}
		if s.Members >= 0 {
			shown.Members = &s.Members
		}
		shown.HookAbsent = known && !slices.ContainsFunc(hooks, func(h *hook.Hook) bool { return h.Name == s.Hook })
		all = append(all, shown)
	}
	return all, err
}

// oneSet finds the set that a request names by its id, its name, or hook and name.
func (t *setTopic) oneSet(ctx context.Context, name string) (Set, error) {
	found, err := t.namedSets(ctx, name)
	switch {
	case err != nil:
		return Set{}, err
	case len(found) > 1:
		return Set{}, refuse(http.StatusBadRequest, "%d sets are called %q", len(found), name).
			hint("name one by its id, shell-operator sets list shows the ids")
	}
	return found[0], nil
}

// namedSets finds all sets that a request names, at least one: of several owners, or of several hooks.
func (t *setTopic) namedSets(ctx context.Context, name string) (found []Set, err error) {
	all, err := t.all(ctx)
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
func (t *setTopic) setsOf(ctx context.Context, name string) ([]Set, error) {
	all, err := t.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s Set) bool { return s.Hook != name })
	if len(all) == 0 {
		return nil, refuse(http.StatusBadRequest, "there is no set of a hook %q", name).hint("shell-operator sets list shows all")
	}
	return all, nil
}

func (t *setTopic) list(r request) (answer, error) {
	all, err := t.all(r.Context())
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

func (t *setTopic) show(r request) (answer, error) {
	decoded, _ := url.PathUnescape(r.name)
	s, err := t.oneSet(r.Context(), decoded)
	if err != nil {
		return answer{}, err
	}
	members, err := t.o.Sets.Show(r.Context(), t.o.Log, s.Namespace, s.ID)
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
	return answer{value: ShownSet{s, append([]applyset.MemberState{}, members...)}, text: b.String()}, nil
}

// remove prunes a set, or all sets of a hook.
func (t *setTopic) remove(r request) (acted, error) {
	var chosen []Set
	if of := r.PostForm.Get("hook"); of != "" {
		all, err := t.setsOf(r.Context(), of)
		if err != nil {
			return acted{}, err
		}
		chosen = all
	} else {
		s, err := t.oneSet(r.Context(), r.PostForm.Get("set"))
		if err != nil {
			return acted{}, err
		}
		chosen = []Set{s}
	}
	if s := chosen[0]; !s.HookAbsent && !t.o.NoOperator && r.PostForm.Get("force") != "true" {
		return acted{}, refuse(http.StatusConflict, "the hook %q of set %s is active", s.Hook, s.ID).
			hint("remove the hook first, or use --force; its next run creates the objects again")
	}
	var lines []string
	for _, s := range chosen {
		deleted, released := 0, 0
		if r.dryRun {
			members, err := t.o.Sets.Show(r.Context(), t.o.Log, s.Namespace, s.ID)
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
			if deleted, released, err = t.o.Sets.Delete(t.fenced(r.Context()), t.o.Log, s.Namespace, s.ID); err != nil {
				return stopped(lines, fmt.Errorf("set %s: %w", s.ID, err))
			}
			t.ended(s.ID)
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

// adopt moves sets to another hook or name: all sets of a hook, or one, of all owners.
func (t *setTopic) adopt(r request) (acted, error) {
	form := r.PostForm
	toHook, toSet, force := form.Get("toHook"), form.Get("toSet"), form.Get("force") == "true"
	choose, name := t.namedSets, form.Get("set")
	if of := form.Get("hook"); of != "" {
		choose, name = t.setsOf, of
	}
	chosen, err := choose(r.Context(), name)
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
		return acted{}, refuse(http.StatusBadRequest, "several hooks have sets called %q", name).hint("name them as HOOK/NAME")
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
		id, moved, err := t.o.Sets.Adopt(t.fenced(r.Context()), t.o.Log, s.Namespace, s.ID, to)
		if err != nil {
			return stopped(lines, err)
		}
		if !r.dryRun {
			t.ended(s.ID)
		}
		lines = append(lines, fmt.Sprintf("set %s is moved to %s, set %q of hook %q, with %s", s.ID, id, to.Name, to.Hook,
			count(moved, "object")))
	}
	return acted{Count: len(lines), Message: strings.Join(lines, "\n")}, nil
}

// shownLost limits the ids in one text.
const shownLost = 5

// lost are the sets that hooks have left, one reason for each hook.
func (t *setTopic) lost() (hooks []string, reasons map[string]Reason, sets map[string]int) {
	ids, sets := map[string][]string{}, map[string]int{}
	for _, s := range t.o.Lost() {
		sets[s.Hook]++
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
		reasons[name] = Reason{BySet, false, fmt.Sprintf("its hook is gone, and %s of objects left: %s", count(len(of), "set"), text),
			"bring the hook back, or shell-operator sets adopt or delete --hook " + hook.Word(name)}
	}
	return hooks, reasons, sets
}

// left are the sets of a hook that is gone.
func (t *setTopic) left(name string) []Reason {
	if _, lost, _ := t.lost(); lost[name].Text != "" {
		return []Reason{lost[name]}
	}
	return nil
}

func (t *setTopic) troubles() (all []Trouble) {
	hooks, lost, sets := t.lost()
	for _, name := range hooks {
		subject := name
		if !hook.IsName(name) {
			subject = strconv.Quote(name)
		}
		all = append(all, Trouble{Kind: InSet, Hooks: []string{name}, Subject: subject, Problem: lost[name].Text, Hint: lost[name].Hint,
			brief: fmt.Sprintf("the hook %q is gone, its sets of objects are left: %d", name, sets[name])})
	}
	for _, c := range t.o.Contested() {
		all = append(all, Trouble{Kind: InSet, Hooks: []string{c.Hook}, Subject: fmt.Sprintf("%s, set %q", c.Hook, c.Set), Problem: contested(&c),
			Hint: "shell-operator sets show " + c.ID})
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
	counts := map[string]int{}
	for _, s := range t.o.Lost() {
		if hook.IsName(s.Hook) {
			counts[s.Hook]++
		} else {
			counts["invalid name"]++
		}
	}
	for name, n := range counts {
		set(n, name)
	}
}
