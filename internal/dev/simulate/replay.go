package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// readFrom reads Input.From: binding contexts, or a recording, which has some.
func (s *simulation) readFrom() error {
	if s.in.From == "" {
		return nil
	}
	text, err := os.ReadFile(s.in.From)
	if err != nil {
		return fmt.Errorf("cannot read the binding contexts: %w", err)
	}
	if s.result.Recording, text, err = recording.Open(text); err != nil {
		return fmt.Errorf("%s: %w", s.in.From, err)
	}
	if s.contexts, s.heads, err = wire.ReadContexts(text); err != nil {
		return fmt.Errorf("%s: cannot use the binding context: %w", s.in.From, err)
	}
	return nil
}

// contextObjects are the full objects of binding contexts: the last state of each.
func contextObjects(file []byte) (all []testfile.Manifest, err error) {
	type item struct{ Object json.RawMessage }
	var contexts []struct {
		item
		Objects    []item
		Snapshots  map[string][]item
		WatchEvent string
	}
	if err := json.Unmarshal(file, &contexts); err != nil {
		return nil, err
	}
	last := map[string]int{}
	add := func(text []byte) {
		h, err := testfile.HeadOf(text)
		if len(text) == 0 || err != nil || h.Kind == "" || h.APIVersion == "" || h.Metadata.Name == "" {
			return
		}
		id := h.APIVersion + "/" + h.Ref()
		if at, ok := last[id]; ok {
			all[at].Text = text
			return
		}
		last[id] = len(all)
		all = append(all, testfile.Manifest{Path: "its contexts", Text: text})
	}
	for _, c := range contexts {
		for _, o := range c.Objects {
			add(o.Object)
		}
		for _, snapshot := range c.Snapshots {
			for _, o := range snapshot {
				add(o.Object)
			}
		}
		if c.WatchEvent != event.Deleted.String() {
			add(c.Object)
		}
	}
	return all, nil
}

// replay runs the hook with given contexts.
func (s *simulation) replay(ctx context.Context) error {
	s.result.Notes = append(s.result.Notes, unknownBindings(s.hook, s.heads)...)
	for i := range max(1, s.in.Attempts) {
		out, result, err := s.runner.Try(ctx, run.Trial{
			Hook: s.hook, Contexts: s.contexts, Attempt: s.result.Recording.FirstAttempt() + i,
		})
		s.result.Usage = result.Usage
		if invalid := s.readResult(out, resultRules(s.hook, s.heads, err != nil)); err == nil {
			err = invalid
		} else if invalid != nil {
			s.warn("the result file is ignored: %v", invalid)
		}
		if err == nil {
			var requests apply.Requests
			if requests, err = apply.Check(s.hook, out, s.Filters); err == nil {
				err = s.answered(s.heads[0], requests.Answers)
			}
			if err == nil {
				_, err = simulatedEffects{s}.Apply(ctx, silent(), s.hook, out, nil, nil)
			}
		} else if out.Patch != nil {
			_, failed := simulatedEffects{s}.ApplyFailed(ctx, silent(), s.hook, out, nil, nil)
			err = errors.Join(err, failed)
		}
		s.result.Err, s.result.Exit = err, exitOf(err)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return ctx.Err()
}

// readResult parses the result file of a run.
func (s *simulation) readResult(out run.Outputs, rules wire.ResultRules) error {
	result, err := wire.ParseResult(out.Result, rules)
	if s.result.File = nil; err == nil && out.Result != nil {
		s.result.File = &result
	}
	return err
}

// answered checks the response of a run to a request, if it has one.
func (s *simulation) answered(head wire.ContextHead, a apply.Answers) error {
	if err := a.Check(s.hook, head); err != nil {
		return err
	}
	if a.Admission != nil {
		s.result.Admission = wire.FormatAdmission(*a.Admission)
	}
	if a.Conversion != nil {
		s.result.Conversion = a.Conversion
	}
	if a.HTTP != nil {
		s.result.HTTP = wire.FormatHTTP(*a.HTTP)
	}
	return nil
}

// resultRules are those for the result file of a run with saved contexts. The operator knows the names of objects that the contexts do
// not have; here they are not checked.
func resultRules(h *hook.Hook, heads []wire.ContextHead, failed bool) wire.ResultRules {
	r := wire.ResultRules{Failed: failed, Contains: func(namespace, name string) bool {
		return slices.ContainsFunc(heads, func(head wire.ContextHead) bool {
			return slices.ContainsFunc(head.Objects, func(o event.ObjectName) bool {
				return o.Name == "" || o.Namespace == namespace && o.Name == name
			})
		})
	}}
	first := heads[0]
	switch {
	case first.Type != event.Startup:
		r.MessageOnly = "a run that answers a request"
	case first.Binding == string(hook.OnStart) && first.GroupName == "":
		r.MessageOnly = "an onStartup run"
	case h.Contexts == hook.NameContexts:
		r.MessageOnly = "a hook with configuration v0"
	}
	unlisted := func(head wire.ContextHead) bool {
		return slices.ContainsFunc(h.Kubernetes, func(k hook.Kubernetes) bool { return k.Name == head.Binding && k.Initial == hook.InitialNone })
	}
	if !slices.ContainsFunc(heads, func(head wire.ContextHead) bool { return !unlisted(head) }) {
		r.Unlisted, r.UnlistedDeleting = first.Binding, first.Binding
	}
	return r
}

// unknownBindings are notes about contexts for bindings that a hook does not have.
func unknownBindings(h *hook.Hook, heads []wire.ContextHead) (notes []string) {
	known := map[string]bool{}
	for a, b := range h.Bindings() {
		known[b.Name] = true
		if a.Kind.Caller() == "" {
			known[b.Group] = true
		}
	}
	for _, c := range heads {
		if !known[c.Binding] && c.GroupName == "" {
			notes = append(notes,
				fmt.Sprintf("the context is for binding %q, which the hook does not have: the operator would never pass it", c.Binding))
		}
	}
	return notes
}
