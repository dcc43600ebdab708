package debug

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// triggerer runs bindings on request.
type triggerer interface {
	// Trigger queues a run of a binding and returns the id of its task. A dry run only checks the hook.
	Trigger(h *hook.Hook, a hook.Address, dryRun bool) (task string, err error)
	// TriggerObject queues an event of an object of a kubernetes binding.
	TriggerObject(h *hook.Hook, index int, namespace, name string, dryRun bool) error
}

type hookTopic struct {
	hooks    *Hooks
	bindings bindingReader
	objects  objectReader
	do       triggerer
}

// HooksTopic shows hooks, their configurations and snapshots, and runs them.
func HooksTopic(hooks *Hooks, bindings bindingReader, objects objectReader, do triggerer) Topic {
	t := &hookTopic{hooks, bindings, objects, do}
	return Topic{
		Name: "hook hooks", About: "Show hooks, their configurations and snapshots, pause, resume, record and trigger",
		Routes: []Route{
			{Method: "GET", Path: "/hook/list", About: "names of the hooks, in the order in which they were loaded", show: t.list, upstream: true,
				Command: &Command{
					Use: "hook list", Short: "List the names of hooks", Example: "  shell-operator hook list\n  shell-operator hook list -o json",
				}},
			{Method: "GET", Path: "/hook/*/snapshots", About: "what the hook's `kubernetes` bindings see", show: onHook(hooks, t.snapshots),
				upstream: true, Command: &Command{
					Use: "hook snapshot HOOK", Short: "Show the snapshots of a hook", Args: ofOne, Takes: oneHook,
					Long: `Show the snapshots of a hook, one for each kubernetes binding, and how many objects have been
added, modified and deleted since the start and since the last run.`,
					Example: "  shell-operator hook snapshot pods.sh\n  shell-operator hook snapshot " +
						"pods.sh -o json | jq '.pods.snapshot[].filterResult'",
				}},
			{Method: "GET", Path: "/hook/*/config", About: "the configuration that the hook has printed",
				show: onHook(hooks, t.config), Command: &Command{
					Use: "hook config HOOK", Short: "Show the configuration that a hook has printed", Args: ofOne, Takes: oneHook,
					Long:    "Show the configuration that a hook has printed. 'shell-operator explain hook' has the defaults of its keys.",
					Example: "  shell-operator hook config pods.sh\n  shell-operator hook config pods.sh -o json",
				}},
			{Method: "POST", Path: "/hook/*/trigger", About: "queue a run: form field `binding`, unless there is one only, or `object`",
				act: onHook(hooks, t.trigger), Command: &Command{
					Use: "hook trigger HOOK [BINDING]", Short: "Run a hook now", Args: [][]string{{"*"}, {"*", "binding"}},
					Takes: "the name of a hook and perhaps of a binding",
					Flags: []Flag{{Name: "object", Field: "object", Usage: "deliver this object `KIND/NAMESPACE/NAME` as Modified"}},
					Long: `Queue a run of a hook: a tick for a schedule, a startup run for onStartup, a Synchronization for a kubernetes binding (with
initialObjects: added the Added events). Without BINDING it is the only one. It prints the id of the task. A triggered
Synchronization is next in the main queue; one failure drops it.

With --object, deliver one object as it is now to the kubernetes bindings of the hook that have it, or to BINDING: as Modified, or as Added
if executeHookOnEvent has no Modified. The event waits in its queue, and fails and is retried, as each other one.`,
					Example: "  shell-operator hook trigger pods.sh pods\n  shell-operator hook trigger orders.sh --object Order/shop/blue",
				}},
		},
	}
}

func (t *hookTopic) list(request) (answer, error) {
	hooks, err := t.hooks.all()
	names := make([]string, len(hooks))
	for i, h := range hooks {
		names[i] = h.Name
	}
	return answer{value: names}, err
}

func (t *hookTopic) snapshots(_ request, h *hook.Hook) (answer, error) {
	return answer{json: func(w io.Writer) error { return writeSnapshots(w, t.bindings, h) }}, nil
}

func (t *hookTopic) config(_ request, h *hook.Hook) (answer, error) {
	value, err := wire.FirstAsJSON(h.Printed)
	return answer{value: json.RawMessage(value), text: strings.TrimSpace(string(h.Printed)) + "\n"}, err
}

func (t *hookTopic) trigger(r request, h *hook.Hook) (acted, error) {
	if r.PostForm.Has("object") {
		return t.triggerObject(r, h, r.PostForm.Get("object"))
	}
	at, name, err := triggered(h, r.PostForm.Get("binding"))
	if err != nil {
		return acted{}, err
	}
	task, err := t.do.Trigger(h, at, r.dryRun)
	switch {
	case err != nil:
		return acted{}, conflict("", err)
	case r.dryRun:
		return done(1, "hook %q: a run of binding %q would be queued", h.Name, name), nil
	case task == "":
		return done(1, "hook %q: an Added event of each object of binding %q is queued (shell-operator runs %s)", h.Name, name, h.Name), nil
	}
	queued := done(1, "hook %q: task %s is queued for binding %q (shell-operator runs show %s)", h.Name, task, name, task)
	queued.Task = task
	return queued, nil
}

// triggerObject queues an event of an object for each binding that has it.
func (t *hookTopic) triggerObject(r request, h *hook.Hook, object string) (acted, error) {
	kind, namespace, name, err := parseObject(object)
	if err != nil {
		return acted{}, err
	}
	var all, queued []string
	for i, k := range h.Kubernetes {
		all = append(all, k.Name+" ("+k.Kind+")")
		if !t.objects.IsKind(h, i, kind) || !slices.Contains([]string{"", k.Name}, r.PostForm.Get("binding")) {
			continue
		}
		if refused := t.do.TriggerObject(h, i, namespace, name, r.dryRun); refused != nil {
			err = conflict(fmt.Sprintf("hook %q, binding %q: ", h.Name, k.Name), refused)
			continue
		}
		queued = append(queued, strconv.Quote(k.Name))
	}
	switch {
	case len(queued) > 0:
		return done(len(queued), "hook %q: an event of %s is queued for %s (shell-operator runs %s)", h.Name, object,
			strings.Join(queued, ", "), h.Name), nil
	case err == nil:
		err = refuse(http.StatusBadRequest, "hook %q has no such binding for objects of kind %q", h.Name, kind).
			hint("its kubernetes bindings are %s", cmp.Or(strings.Join(all, ", "), "none"))
	}
	return acted{}, err
}

// triggerable reports whether a person can run bindings of a type.
func triggerable(k hook.Kind) bool {
	return k == hook.OnStart || k == hook.OnKubernetes || k == hook.OnSchedule
}

// triggered finds the binding by name: the only one if the name is empty.
func triggered(h *hook.Hook, name string) (at hook.Address, found string, err error) {
	var names []string
	for a, b := range h.Bindings() {
		if !triggerable(a.Kind) {
			continue
		}
		own := cmp.Or(b.Name, string(a.Kind))
		if name == "" || own == name {
			at, found = a, own
		}
		names = append(names, own)
	}
	switch {
	case len(names) == 0:
		err = refuse(http.StatusBadRequest, "hook %q has no binding that can be triggered", h.Name).
			hint("only onStartup, kubernetes and schedule bindings are")
	case found == "":
		err = refuse(http.StatusBadRequest, "hook %q has no binding %q", h.Name, name).hint("use one of %s", strings.Join(names, ", "))
	case name == "" && len(names) > 1:
		err = refuse(http.StatusBadRequest, "hook %q has %d bindings", h.Name, len(names)).hint("name one of %s", strings.Join(names, ", "))
	}
	return at, found, err
}
