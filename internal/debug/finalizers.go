package debug

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// finalizerRecord is the record of finalizers.
type finalizerRecord interface {
	List(context.Context) ([]finalizer.Entry, error)
	// Orphans are the finalizers whose hook or binding is gone, as of the last search.
	Orphans() []finalizer.Orphan
	// Remove removes a finalizer of an installation from its objects. It returns the number of resources, and that of objects that keep the
	// finalizer, because other clients have added it.
	Remove(ctx context.Context, name, instance string) (resources, foreign int, err error)
}

// FinalizersOptions configure FinalizersTopic.
type FinalizersOptions struct {
	Hooks    *Hooks
	Record   finalizerRecord
	Instance string
	// SearchProblem is why the last search for orphans failed; empty if it did not.
	SearchProblem func() string
	Names         telemetry.Names
}

type finalizerTopic struct{ o FinalizersOptions }

// FinalizersTopic shows and removes finalizers, and reports those whose hook is gone.
func FinalizersTopic(o FinalizersOptions) Topic {
	t := &finalizerTopic{o}
	return Topic{
		Name: "finalizers", About: "Show and remove the finalizers of hooks",
		Routes: []Route{
			{Method: "GET", Path: "/finalizers/list", About: "the record of finalizers", show: t.list, Command: &Command{
				Use: "finalizers list", Short: "List the record of finalizers", List: listOf("finalizers", refreshedSlow, (*Finalizer).cells),
				Long: `List which finalizer was added by which hook to which resource, of all operators that share the namespace. Orphaned ones have no
hook or binding any more: their objects cannot be deleted.`,
				Example: "  shell-operator finalizers list\n  shell-operator finalizers list -o json | jq '.[] | select(.orphan)'",
			}},
			{Method: "POST", Path: "/finalizers/remove",
				About: "remove a finalizer from all objects: form fields `name`, `yes=true` and optionally `instance`", act: t.remove,
				Command: &Command{
					Use: "finalizers remove NAME", Short: "Remove a finalizer from all objects",
					Long: `Remove a finalizer from all objects to which the operator has added it: one whose hook is gone, or with --instance that
of another installation. A finalizer of an active hook is not removed. --yes confirms that no hook will clean up after its
objects, also none of another operator of the installation; without it, the command names what it would do.`,
					Example: "  shell-operator finalizers remove example.com/database --yes",
					Args:    [][]string{{"name"}}, Takes: "the name of a finalizer",
					Flags: []Flag{{Name: "instance", Field: "instance",
						Usage: "installation that has added the finalizer; default: that of the operator"},
						{Name: "yes", Field: "yes", Default: "false", Usage: "remove the finalizer from all objects, without a run of its hook"}},
				}},
		},
		Troubles: t.troubles,
		Metrics: []prometheus.Collector{o.Names.Gauge("orphaned_finalizer_objects", func(set telemetry.Set) {
			for _, f := range o.Record.Orphans() {
				set(f.Objects, f.Finalizer, f.Resource)
			}
		})},
	}
}

// Finalizer is an entry of the record of finalizers.
type Finalizer struct {
	finalizer.Entry
	// Own: this operator belongs to the installation.
	Own bool `json:"own"`
	// Orphan: the hook or binding is gone. Objects is the number of objects that have the finalizer; it is known of orphans only.
	Orphan  bool `json:"orphan"`
	Objects int  `json:"objects,omitempty"`
}

func (f *Finalizer) cells() []Cell {
	problem := ""
	if f.Orphan {
		problem = "orphaned with " + Count(f.Objects, "object")
	}
	return []Cell{asText.of("FINALIZER", f.Finalizer), asText.of("RESOURCE", f.Resource), asHook.of("HOOK", f.Hook),
		asText.of("BINDING", f.Binding), asText.of("INSTALLATION", f.Instance), asFault.of("PROBLEM", problem),
		asActions.of("ACTIONS", []Action{acts("finalizers/remove", "name", f.Finalizer, "instance", f.Instance, "yes", "true")})}
}

// all reads the record.
func (t *finalizerTopic) all(ctx context.Context) ([]Finalizer, error) {
	entries, err := t.o.Record.List(ctx)
	all := make([]Finalizer, len(entries))
	for n, e := range entries {
		all[n] = Finalizer{Entry: e, Own: e.Instance == t.o.Instance}
		for _, o := range t.o.Record.Orphans() {
			if o.Finalizer == e.Finalizer && o.Resource == e.Resource && all[n].Own {
				all[n].Orphan, all[n].Objects = true, o.Objects
			}
		}
	}
	return all, err
}

func (t *finalizerTopic) list(r request) (answer, error) {
	all, err := t.all(r.Context())
	return answer{value: all}, err
}

// remove removes a finalizer from all objects.
func (t *finalizerTopic) remove(r request) (acted, error) {
	form := r.PostForm
	name, instance := form.Get("name"), form.Get("instance")
	all, err := t.all(r.Context())
	if err != nil {
		return acted{}, err
	}
	n, own := 0, false
	for _, f := range all {
		if f.Finalizer == name && (f.Instance == instance || instance == "" && f.Own) {
			n, instance, own = n+1, f.Instance, f.Own
		}
	}
	for _, h := range t.o.Hooks.Active() {
		for _, k := range h.Kubernetes {
			if k.Finalizer == name && own {
				return acted{}, refuse(http.StatusConflict, "the finalizer %s is in use by hook %q, binding %q", name, h.Name, k.Name).
					hint("remove the hook first, or edit metadata.finalizers of single objects with kubectl")
			}
		}
	}
	if n == 0 {
		return acted{}, refuse(http.StatusBadRequest, "the record has no finalizer %q of that installation", name).
			hint("shell-operator finalizers list shows all")
	}
	if !r.dryRun && form.Get("yes") != "true" {
		return acted{}, refuse(http.StatusConflict, "the finalizer %s of installation %s would be removed from all objects of %s, without a run "+
			"of its hook", name, instance, Count(n, "resource")).
			hint("use --yes if no operator has the hook")
	}
	kept := ""
	if !r.dryRun {
		foreign := 0
		if n, foreign, err = t.o.Record.Remove(r.Context(), name, instance); err != nil {
			return acted{}, conflict("", err)
		}
		if foreign > 0 {
			kept = "; other clients have added it to " + Count(foreign, "object") + ", which keep it"
		}
	}
	return done(n, "the finalizer %s of installation %s is removed from all objects of %s%s", name, instance, Count(n, "resource"), kept), nil
}

func (t *finalizerTopic) troubles() (all []Trouble) {
	if problem := t.o.SearchProblem(); problem != "" {
		all = append(all, Trouble{Kind: InFinalizer, Subject: "the search for finalizers and sets without a hook", Problem: OneLine(problem)})
	}
	for _, f := range t.o.Record.Orphans() {
		all = append(all, Trouble{Kind: InFinalizer, Hooks: []string{f.Hook}, Binding: f.Binding, Subject: inHook(f.Hook, f.Binding),
			Problem: fmt.Sprintf("%s of %s keep the finalizer %s, and its hook or binding is gone: they cannot be deleted",
				Count(f.Objects, "object"), f.Resource, f.Finalizer),
			Hint: "bring the hook back, or shell-operator finalizers remove --yes " + f.Finalizer})
	}
	return all
}
