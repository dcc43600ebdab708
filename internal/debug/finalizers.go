package debug

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// Finalizer is an entry of the record of finalizers.
type Finalizer struct {
	Finalizer string `json:"finalizer"`
	Resource  string `json:"resource"`
	Instance  string `json:"instance"`
	// Own: the installation is that of this operator.
	Own     bool   `json:"own"`
	Hook    string `json:"hook"`
	Binding string `json:"binding"`
	// Orphan: the hook or binding is gone. Objects is the number of objects that have the finalizer; it is known of orphans only.
	Orphan  bool `json:"orphan"`
	Objects int  `json:"objects,omitempty"`
	// Elsewhere are operators that may have the hook of an orphan.
	Elsewhere []string `json:"elsewhere,omitempty"`
}

func (f *Finalizer) orphaned() string {
	return fmt.Sprintf("%s of %s keep the finalizer %s, and its hook or binding is gone%s: they cannot be deleted", count(f.Objects, "object"), f.Resource, f.Finalizer, f.unless())
}

func (f *Finalizer) unless() string {
	if len(f.Elsewhere) == 0 {
		return ""
	}
	return ", unless it is with " + strings.Join(f.Elsewhere, ", ")
}

// Heartbeat is a sign of life of an operator.
type Heartbeat struct {
	Operator, Instance string
	// Renewed is by the clock of that operator.
	Renewed time.Time
	// State is what is known of the operator; empty if it has not been seen to renew its heartbeat.
	State string
}

// SharedInstance reports that other operators use the name of an installation.
func SharedInstance(instance string, operators []string) Trouble {
	return Trouble{Kind: InFinalizer, Subject: fmt.Sprintf("the instance name %q", instance), Problem: usedElsewhere(operators), Hint: separateInstances}
}

func usedElsewhere(operators []string) string {
	return "another operator uses it: " + strings.Join(operators, ", ")
}

const separateInstances = "set --instance for one of them, or --leader-election if they are replicas"

const removeOrphan = "bring the hook back, or shell-operator finalizers remove "

func finalizersList(a *API, r request) (answer, error) {
	all, err := a.Operator.Finalizers(r.Context())
	if err != nil {
		return answer{}, err
	}
	heartbeats, err := a.Operator.Heartbeats(r.Context())
	if err != nil {
		return answer{}, err
	}
	var b strings.Builder
	if len(all) == 0 {
		all = []Finalizer{}
		b.WriteString("no finalizers\n")
	}
	for _, f := range all {
		fmt.Fprintf(&b, "%s  %s, installation %s: hook %q, binding %q", f.Finalizer, f.Resource, f.Instance, f.Hook, f.Binding)
		if f.Orphan {
			fmt.Fprintf(&b, ", orphaned with %s", count(f.Objects, "object"))
		}
		b.WriteString("\n")
	}
	for _, h := range heartbeats {
		state := ""
		if h.State != "" {
			state = " (" + h.State + ")"
		}
		fmt.Fprintf(&b, "operator %s, installation %s%s: heartbeat of %s\n", h.Operator, h.Instance, state, h.Renewed.Format(time.RFC3339))
	}
	return answer{value: all, text: b.String()}, nil
}

// finalizersRemove removes a finalizer from all objects, or those of hooks from one object.
func finalizersRemove(a *API, r request, dryRun bool) (acted, error) {
	form := r.PostForm
	if kind := form.Get("kind"); kind != "" {
		return a.releaseObject(r, kind, form.Get("object"), dryRun)
	}
	name, instance := form.Get("name"), form.Get("instance")
	all, err := a.Operator.Finalizers(r.Context())
	if err != nil {
		return acted{}, err
	}
	n, own := 0, false
	for _, f := range all {
		if f.Finalizer == name && (f.Instance == instance || instance == "" && f.Own) {
			n, instance, own = n+1, f.Instance, f.Own
		}
	}
	for _, h := range a.Operator.Hooks() {
		for _, k := range h.Kubernetes {
			if k.Finalizer == name && own {
				return acted{}, refuse(http.StatusConflict, "the finalizer %s is in use by hook %q, binding %q", name, h.Name, k.Name).hint("remove the hook first, or release single objects with finalizers remove KIND NAMESPACE/NAME")
			}
		}
	}
	if n == 0 {
		return acted{}, refuse(http.StatusBadRequest, "the record has no finalizer %q of that installation", name).hint("shell-operator finalizers list shows all")
	}
	if !dryRun {
		if n, err = a.Actions.RemoveFinalizer(r.Context(), name, instance); err != nil {
			return acted{}, conflict("", err)
		}
	}
	return acted{Count: n, Message: fmt.Sprintf("the finalizer %s of installation %s is removed from all objects of %s", name, instance, count(n, "resource"))}, nil
}

func (a *API) releaseObject(r request, kind, object string, dryRun bool) (acted, error) {
	namespace, name, ok := strings.Cut(object, "/")
	if !ok {
		namespace, name = "", object
	}
	if name == "" {
		return acted{}, refuse(http.StatusBadRequest, "name the object as NAMESPACE/NAME, a cluster-scoped one as NAME")
	}
	if dryRun {
		return acted{Count: 1, Message: fmt.Sprintf("%s %s would lose the finalizers of hooks; no hook runs for that", kind, object)}, nil
	}
	removed, err := a.Actions.ReleaseObject(r.Context(), kind, namespace, name)
	if err != nil {
		return acted{}, conflict("", err)
	}
	return acted{Count: len(removed), Message: fmt.Sprintf("%s %s has lost %s; no hook ran for that", kind, object, strings.Join(removed, ", "))}, nil
}

// orphansOf are the orphaned finalizers of a hook by its name.
func orphansOf(o Operator, name string) (reasons []Reason) {
	for _, f := range o.Orphans() {
		if f.Hook == name {
			reasons = append(reasons, Reason{ByFinalizer, false, f.orphaned(), removeOrphan + f.Finalizer})
		}
	}
	return reasons
}

// orphanedHook explains a hook that is gone and has left finalizers or sets.
func orphanedHook(o Operator, name string) (Explanation, bool) {
	reasons := orphansOf(o, name)
	if _, lost := lostSets(o); lost[name].Text != "" {
		reasons = append(reasons, lost[name])
	}
	return Explanation{Hook: name, Verdict: IsGone, Reasons: reasons}, len(reasons) > 0
}

// finalizing covers objects that wait for their finalizer, or keep it.
func (f *facts) finalizing() (reasons []Reason) {
	for i, b := range f.bindings {
		for _, t := range b.Finalizing {
			reasons = append(reasons, Reason{ByFinalizer, true, fmt.Sprintf("binding %q: %s", f.hook.Kubernetes[i].Name, oneLine(t)), ""})
		}
		name := f.hook.Kubernetes[i].Name
		for _, d := range b.Deletions {
			reasons = append(reasons, Reason{ByFinalizer, false, fmt.Sprintf("binding %q: the deletion of %s goes on, next step in %s", name, d.Object, max(0, d.Due.Sub(f.now)).Round(time.Second)), ""})
		}
		if more := b.DeletionsTotal - len(b.Deletions); more > 0 {
			reasons = append(reasons, Reason{ByFinalizer, false, fmt.Sprintf("binding %q: the deletion of %s goes on", name, count(more, "more object")), ""})
		}
	}
	if len(f.others) > 0 && slices.ContainsFunc(f.hook.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" }) {
		reasons = append(reasons, Reason{ByFinalizer, false, fmt.Sprintf("the instance name %q: %s", f.instance, usedElsewhere(f.others)), separateInstances})
	}
	return append(reasons, f.orphans...)
}
