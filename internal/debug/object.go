package debug

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// objectReader reads what is known of one object. It sends no request.
type objectReader interface {
	// IsKind reports whether a binding is for a kind: by its name, its resource, or these with the group.
	IsKind(h *hook.Hook, index int, kind string) bool
	Sight(h *hook.Hook, index int, namespace, name string) Sight
	// Parts are what the object is to sets.
	Parts(kind, namespace, name string) []applyset.Part
}

// Sight is what a binding knows of one object, and what waits for it there.
type Sight struct {
	ObjectBinding
	// JSON is the object, if the binding keeps it.
	JSON []byte
	// Elsewhere is where its events are delivered, or may be if the binding does not see it: with shards, and not here.
	Elsewhere string
	// Tasks are the parked ones with contexts of the object.
	Tasks []pending.ParkedTask
}

// InLane is what waits in a lane.
type InLane struct {
	// Lane is the lane of the next event of the object, a FIFO queue is one; it is missing if it has no task.
	Lane *Lane `json:"lane,omitempty"`
	// Events of the object wait, the first of them behind Before tasks. Those of a task that runs do not count. AtLeast: not all were visited.
	Events  int  `json:"events"`
	Before  int  `json:"before,omitempty"`
	AtLeast bool `json:"eventsCut,omitempty"`
}

// FirstTask is the state of the lane in words. If its first task is about the object, the runs of the object have the cause.
func (w InLane) FirstTask() string {
	if w.Events > 0 && w.Before == 0 {
		return "the first task " + w.Lane.doing()
	}
	return "the first task " + w.Lane.why()
}

// visitedEvents limits the events of a lane that are visited with the lock of its queue, to about 1 ms.
const visitedEvents = 10_000

// InLane copies a lane, and counts the events of an object of a binding in it.
func (r QueueSet) InLane(name, key string, h *hook.Hook, index int, namespace, object string) (w InLane) {
	r.LookLane(name, key, func(l queue.Lane) {
		shown, tasks, left := laneOf(l), 0, visitedEvents
		w.Lane = &shown
		for t := range l.All() {
			tasks++
			if tasks == 1 && l.Phase == queue.Running {
				continue // the run has its events
			}
			if left--; left < 0 {
				w.AtLeast = true
				return
			}
			if t, ok := t.(lifecycle.Task); ok && t.Hook() == h {
				n, visited := t.Count(index, namespace, object, left)
				if n > 0 && w.Events == 0 {
					w.Before = tasks - 1
				}
				w.Events, left = w.Events+n, left-visited
			}
		}
	})
	return w
}

type objectTopic struct {
	hooks    *Hooks
	objects  objectReader
	bindings bindingReader
	runs     *history.History
}

// ObjectTopic shows what is known of one object.
func ObjectTopic(hooks *Hooks, objects objectReader, bindings bindingReader, runs *history.History) Topic {
	t := &objectTopic{hooks, objects, bindings, runs}
	return Topic{Routes: []Route{{Method: "GET", Path: objectPath, show: t.show,
		About: "what is known of one object: `Order/shop/blue`, or `Namespace/shop` without a namespace"}}}
}

// objectPath is the path of the route for KIND/NAMESPACE/NAME.
const objectPath = "/object/*"

// ObjectState is what is known of one object.
type ObjectState struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Deleting reports that it has a deletionTimestamp, Conditions are in its status: if a binding keeps the whole object.
	Deleting   bool               `json:"deleting,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Bindings are those for the kind, those that see the object first.
	Bindings []ObjectBinding `json:"bindings"`
	// Sets are those that were made complete since the start, and that it is a part of.
	Sets []ObjectSet `json:"sets"`
	// Runs are the known runs that name it, the latest first: in the first events of the run, or in its operations.
	Runs []history.Run `json:"runs"`
}

// ObjectBinding is a binding in the eyes of an object.
type ObjectBinding struct {
	Hook    string `json:"hook"`
	Binding string `json:"binding"`
	Sees    bool   `json:"sees"`
	// State is the state of the binding, Problem why the object is not seen, or gets no events.
	State   string `json:"state"`
	Problem string `json:"problem,omitempty"`
	// Finalizer is the finalizer of the binding: the object has it, or awaits it.
	Finalizer       string `json:"finalizer,omitempty"`
	HasFinalizer    bool   `json:"hasFinalizer,omitempty"`
	AwaitsFinalizer bool   `json:"awaitsFinalizer,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	Queue           string `json:"queue"`
	Key             string `json:"key,omitempty"`
	InLane
	Parked  []ParkedTask   `json:"parked,omitempty"`
	Requeue *ObjectRequeue `json:"requeue,omitempty"`
}

// ParkedTable are the parked tasks with contexts of the object.
func (o *ObjectBinding) ParkedTable() Table {
	return TableOf("parked tasks", o.Parked, (*ParkedTask).cells)
}

// ObjectRequeue is when an object is delivered again: at a time, or when there is room among the parked contexts.
type ObjectRequeue struct {
	Due        *time.Time `json:"due,omitempty"`
	AwaitsRoom bool       `json:"awaitsRoom,omitempty"`
}

// ObjectSet is a set that an object is a part of, with the first of its Count members if the object owns it.
type ObjectSet struct {
	applyset.Part
	Count int `json:"memberCount,omitempty"`
}

// Table are the members as rows.
func (s *ObjectSet) Table() Table {
	t := TableOf("objects of "+s.Set, s.Members, memberCells)
	if more := s.Count - len(s.Members); more > 0 {
		t.Rest = fmt.Sprintf("and %d more", more)
	}
	return t
}

// ConditionTable are the conditions as rows.
func (s *ObjectState) ConditionTable() Table {
	return TableOf("conditions", s.Conditions, func(c *metav1.Condition) []Cell {
		return []Cell{asText.of("CONDITION", c.Type), asText.of("STATUS", c.Status), asText.of("REASON", c.Reason),
			asText.of("MESSAGE", c.Message), asAge.of("AGO", c.LastTransitionTime.Time)}
	})
}

// shownMembers limits the members of a set.
const shownMembers = 100

// conditionsOf reads the status of an object. One with another form of conditions has none.
func conditionsOf(text []byte) (deleting bool, conditions []metav1.Condition) {
	var o struct {
		Metadata struct{ DeletionTimestamp string }
		Status   struct{ Conditions []metav1.Condition }
	}
	if json.Unmarshal(text, &o) != nil {
		return false, nil
	}
	return o.Metadata.DeletionTimestamp != "", o.Status.Conditions
}

func (t *objectTopic) show(r request) (answer, error) {
	hooks, err := t.hooks.all()
	if err != nil {
		return answer{}, err
	}
	s := &ObjectState{Bindings: []ObjectBinding{}, Sets: []ObjectSet{}, Runs: []history.Run{}}
	if s.Kind, s.Namespace, s.Name, err = parseObject(r.name); err != nil {
		return answer{}, err
	}
	kinds, all := t.bindingsOf(hooks, s)
	for _, p := range t.objects.Parts(kinds[0], s.Namespace, s.Name) {
		set := ObjectSet{p, len(p.Members)}
		set.Reason, set.Members = history.Cut(p.Reason, shownError), p.Members[:min(shownMembers, len(p.Members))]
		s.Sets = append(s.Sets, set)
	}
	for _, run := range t.runs.All("") {
		if s.isNamedBy(&run, kinds) {
			run.Output, run.OutputCut = "", false
			s.Runs = append(s.Runs, run)
		}
	}
	if len(s.Bindings)+len(s.Sets)+len(s.Runs) == 0 {
		return answer{}, refuse(http.StatusNotFound, "no binding is for the kind %q, and no set or run names the object", s.Kind).
			meant(s.Kind, all, "")
	}
	return answer{value: s, text: s.text(time.Now())}, nil
}

// parseObject parses KIND/NAMESPACE/NAME, or KIND/NAME.
func parseObject(text string) (kind, namespace, name string, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "", "", "", refuse(http.StatusBadRequest, "%q names no object", text).
			hint("write KIND/NAMESPACE/NAME, an object without a namespace as KIND/NAME")
	}
	return parts[0], strings.Join(parts[1:len(parts)-1], ""), parts[len(parts)-1], nil
}

// bindingsOf sets the bindings for the kind. It returns the names of the kind, first that in the bindings, and the kinds of all bindings.
func (t *objectTopic) bindingsOf(hooks []*hook.Hook, s *ObjectState) (kinds, all []string) {
	for _, h := range hooks {
		for i := range h.Kubernetes {
			all = append(all, h.Kubernetes[i].Kind)
			if !t.objects.IsKind(h, i, s.Kind) {
				continue
			}
			s.Bindings = append(s.Bindings, t.binding(h, i, s))
			if kind := h.Kubernetes[i].Kind; !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	slices.SortStableFunc(s.Bindings, func(a, b ObjectBinding) int { return rank(a.Sees) - rank(b.Sees) })
	if kind, _, _ := strings.Cut(s.Kind, "."); !slices.Contains(kinds, kind) {
		kinds = append(kinds, kind)
	}
	return kinds, all
}

func (t *objectTopic) binding(h *hook.Hook, index int, s *ObjectState) ObjectBinding {
	k, is, sight := &h.Kubernetes[index], t.bindings.Binding(h, index), t.objects.Sight(h, index, s.Namespace, s.Name)
	progress := t.bindings.Progress(h)
	if sight.JSON != nil {
		s.Deleting, s.Conditions = conditionsOf(sight.JSON)
	}
	b := sight.ObjectBinding
	b.Hook, b.Binding, b.State, b.Finalizer = h.Name, k.Name, watchState(progress, is), k.Finalizer
	for _, p := range sight.Tasks {
		shown := shownParked(&p, 0)
		shown.Bindings = []string{k.Name} // the others of the task are not about the object
		b.Parked = append(b.Parked, shown)
	}
	const askThere = ": why --object in its Pod, by kubectl exec, asks that replica"
	switch {
	case progress.Elsewhere != "":
		b.Problem = progress.Elsewhere + askThere
	case len(is.Troubles) > 0:
		b.Problem = OneLine(is.Troubles[0])
	case sight.AwaitsFinalizer:
		b.Problem = "the object waits for the finalizer " + k.Finalizer
	case sight.Elsewhere != "":
		b.Problem = sight.Elsewhere + askThere
	case !sight.Sees && is.Complete:
		b.Problem = "there is no such object, or the selectors of the binding leave it out"
	}
	return b
}

// isNamedBy reports whether a run names the object: as one of its first events, if the run is of a binding for the kind, or in an
// operation.
func (s *ObjectState) isNamedBy(r *history.Run, kinds []string) bool {
	if slices.ContainsFunc(r.Patches, func(p run.Change) bool {
		kind, _, _ := strings.Cut(p.Kind, "/")
		return p.Namespace == s.Namespace && p.Name == s.Name && slices.ContainsFunc(kinds, func(k string) bool {
			return strings.EqualFold(k, kind)
		})
	}) {
		return true
	}
	object := " " + s.path() + " ("
	for _, b := range s.Bindings {
		if b.Hook == r.Hook && slices.ContainsFunc(r.Why, func(why string) bool { return strings.HasSuffix(why, object+b.Binding+")") }) {
			return true
		}
	}
	return false
}

// path is NAMESPACE/NAME.
func (s *ObjectState) path() string { return strings.TrimPrefix(s.Namespace+"/"+s.Name, "/") }

func (s *ObjectState) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", s.Kind, s.path())
	for _, c := range s.Conditions {
		fmt.Fprintf(&b, "condition %s=%s%s%s\n", c.Type, c.Status, colon(c.Reason), colon(OneLine(c.Message)))
	}
	for i := range s.Bindings {
		s.Bindings[i].write(&b, now)
	}
	if len(s.Bindings) == 0 {
		b.WriteString("no binding is for this kind\n")
	}
	for _, set := range s.Sets {
		what := fmt.Sprintf("member, %s", set.State)
		if set.Owner {
			what = "owner of " + Count(set.Count, "object")
		}
		fmt.Fprintf(&b, "set %s of hook %q: %s%s\n", set.ID, set.Hook, what, colon(OneLine(set.Reason)))
	}
	for _, r := range s.Runs {
		fmt.Fprintf(&b, "run %s of %s, %s ago: %s (%s)\n", r.ID, r.Hook, ago(now.Sub(r.Started)), r.End(), r.Reason())
	}
	if len(s.Runs) == 0 {
		b.WriteString("no known run names it\n")
	}
	return b.String()
}

// colon puts a colon before a text that is there.
func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func (o *ObjectBinding) write(b *strings.Builder, now time.Time) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "  "+format+"\n", args...) }
	sees := "sees it"
	if !o.Sees {
		sees = "does not see it"
	}
	fmt.Fprintf(b, "%s, binding %q, %s: %s%s\n", o.Hook, o.Binding, o.State, sees, colon(o.Problem))
	switch {
	case o.Deleting && o.HasFinalizer:
		line("it is being deleted and has the finalizer %s", o.Finalizer)
	case o.HasFinalizer:
		line("it has the finalizer %s", o.Finalizer)
	}
	where := laneText(o.Queue, o.Key)
	switch {
	case !o.Sees && o.Events == 0:
	case o.Lane == nil:
		line("%s: nothing waits", where)
	default:
		text := where + ": " + Count(o.Events, "event") + " of it"
		if o.AtLeast {
			text = where + ": at least " + Count(o.Events, "event") + " of it"
		}
		switch {
		case o.Events == 0:
			text += fmt.Sprintf(" among %s", Count(o.Lane.Tasks, "task"))
		case o.Before > 0:
			text += fmt.Sprintf(", behind %s", Count(o.Before, "task"))
		}
		line("%s; %s", text, o.FirstTask())
	}
	for _, p := range o.Parked {
		line("parked task %s, %s, %s ago: %s", p.ID, Count(p.Attempts, "attempt"), ago(now.Sub(p.Since)), OneLine(p.Error))
	}
	switch {
	case o.Requeue == nil:
	case o.Requeue.AwaitsRoom:
		line("it is delivered again when there is room among the parked contexts")
	default:
		line("it is delivered again in %s", short(max(0, o.Requeue.Due.Sub(now))))
	}
}
