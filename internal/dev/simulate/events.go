package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// trigger makes the events of the input, or the Synchronization of all bindings.
func (s *simulation) trigger(ctx context.Context) error {
	in := &s.in
	if s.contexts != nil {
		return s.replay(ctx)
	}
	if !in.Triggered() {
		for i := range s.hook.Kubernetes {
			if s.hook.Kubernetes[i].Initial == hook.InitialEvents {
				s.listening = true
				s.watched.Announce(s.hook, i)
				s.listening = false
				continue
			}
			s.add(event.Event{Type: event.Synchronization, Hook: s.hook, Index: i})
		}
		return s.drain(ctx)
	}
	for i, k := range s.hook.Kubernetes {
		for _, o := range s.server.Objects() { // the hook has seen them in its Synchronization
			if ev, ok := s.watched.Object(s.hook, i, o.Namespace, o.Name); ok && k.IncludePrevious && k.Initial != hook.InitialNone {
				s.pending.Listed(&ev, 0)
			}
		}
		s.watched.Unlock(s.hook, i)
	}
	switch {
	case in.Startup:
		if s.hook.OnStartup == nil {
			return errors.New("startup: the hook has no onStartup")
		}
		s.add(event.Event{Type: event.Startup, Hook: s.hook})
		return s.drain(ctx)
	case in.Tick != "":
		return s.tick(ctx)
	case in.Review != nil && len(s.hook.Validating)+len(s.hook.Mutating) == 0:
		return errors.New("review: the hook has no kubernetesValidating or kubernetesMutating")
	case in.Review != nil:
		return s.review(ctx)
	case in.Convert != nil:
		return s.convert(ctx)
	case in.HTTP != "":
		return s.request(ctx)
	}
	batch := 1
	if s.in.Together {
		batch = len(s.in.Events)
	}
	for events := range slices.Chunk(s.in.Events, batch) {
		for _, ev := range events {
			if err := s.event(ctx, ev); err != nil {
				return fmt.Errorf("%s: %w", ev.Place, err)
			}
		}
		if err := errors.Join(s.drain(ctx), s.restore(ctx)); err != nil {
			return err
		}
		for _, ev := range events {
			if err := s.finalize(ctx, ev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *simulation) tick(ctx context.Context) error {
	var names []string
	for i, b := range s.hook.Schedules {
		if b.Name == s.in.Tick || b.Crontab == s.in.Tick {
			s.add(event.Event{Type: event.Tick, Hook: s.hook, Index: i})
		}
		names = append(names, b.Name)
	}
	if len(s.waiting) == 0 {
		return fmt.Errorf("tick: the hook has no schedule %q; it has %s", s.in.Tick, listed(names))
	}
	return s.drain(ctx)
}

func listed(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

// event changes the cluster. An event that causes no run is noted, with the reasons.
func (s *simulation) event(ctx context.Context, ev testfile.Event) error {
	waiting, excluded, changes, seen := len(s.waiting), len(s.result.Excluded), s.changes, len(s.result.seen)
	err := s.make(ctx, ev)
	var touched []memory.Object
	if ev.Type == "Deleted" || ev.Type == "Modified" {
		touched = s.result.seen[seen:]
		s.touched = append(s.touched, touched...)
	}
	if err != nil || len(s.waiting) > waiting {
		return err
	}
	reasons := slices.Compact(slices.Clone(s.result.Excluded[excluded:]))
	ref, reason := ev.Ref, "no binding is for its kind"
	if ev.Type == "Modified" && s.changes == changes {
		reason = "the manifest is equal to the object"
	}
	for _, o := range touched {
		if set := s.setOf(o); set != nil {
			reason = fmt.Sprintf("it is a member of the set %q, which the operator restores itself", set.Name)
			reasons = nil
		}
	}
	if testfile.IsManifest(ref) {
		ref = filepath.Base(ref)
	}
	s.result.Ignored = append(s.result.Ignored, fmt.Sprintf("%s %s caused no run: %s", ev.Type, ref,
		cmp.Or(strings.Join(reasons, "; "), reason)))
	return nil
}

func (s *simulation) make(ctx context.Context, ev testfile.Event) error {
	s.listening = true
	defer func() { s.listening = false }()
	switch {
	case testfile.IsManifest(ev.Ref):
		return s.fileEvent(ctx, ev)
	case ev.Type == "Requeue" && !strings.Contains(ev.Ref, "/"):
		return s.requeueBinding(ev.Ref)
	}
	if ev.Type == "Added" {
		if o, err := findAmong(s.absent, ev.Ref); err == nil {
			s.absent = slices.DeleteFunc(s.absent, func(other memory.Object) bool { return other.Ref() == o.Ref() })
			return s.added(ctx, o.JSON)
		}
	}
	o, err := find(s.server, ev.Ref)
	if err != nil {
		return err
	}
	return s.change(ctx, ev.Type, o)
}

// requeueBinding delivers a requeue of a binding that is about no object: its Synchronization, a tick, or the context of a group.
func (s *simulation) requeueBinding(name string) error {
	names := []string{}
	for i, k := range s.hook.Kubernetes {
		switch {
		case k.Group == name:
			s.add(event.Event{Type: event.Change, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		case k.Name == name && k.Group == "" && k.Initial == hook.InitialList:
			s.add(event.Event{Type: event.Synchronization, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		}
		names = append(names, cmp.Or(k.Group, k.Name))
	}
	for i, b := range s.hook.Schedules {
		if b.Name == name || b.Group == name {
			s.add(event.Event{Type: event.Tick, Hook: s.hook, Index: i, Watch: event.Requeued})
			return nil
		}
		names = append(names, cmp.Or(b.Group, b.Name))
	}
	return fmt.Errorf("there is no binding or group %q with a Synchronization or ticks; the hook has %s", name, listed(names))
}

// requeueObject delivers a requeue of an object by each binding that has it.
func (s *simulation) requeueObject(o memory.Object) error {
	for i, k := range s.hook.Kubernetes {
		res, err := s.resolve(k.APIVersion, k.Kind)
		if err != nil || res.GroupResource() != o.Kind.GroupResource() || k.Group != "" { // an optional kind may be unknown
			continue
		}
		ev, ok := s.watched.Object(s.hook, i, o.Namespace, o.Name)
		switch {
		case ok:
		case s.watched.Has(s.hook, i, o.Namespace, o.Name):
			s.exclude(s.hook, i, "the object is being deleted: Deleting is delivered, a requeue is not")
			continue
		default:
			s.exclude(s.hook, i, "it does not have the object: its selectors do not match, or a finalizer could not be set")
			continue
		}
		ev.Watch = event.Requeued
		s.add(ev)
	}
	return nil
}

func (s *simulation) fileEvent(ctx context.Context, ev testfile.Event) error {
	manifests, err := testfile.ReadManifests([]string{ev.Ref})
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return errors.New("the file has no object")
	}
	for _, m := range manifests {
		switch ev.Type {
		case "Added":
			err = s.added(ctx, m.Text)
		case "Modified":
			var finalizers []string
			for _, k := range s.hook.Kubernetes {
				finalizers = append(finalizers, k.Finalizer)
			}
			if _, err = s.server.Replace(m.Text, finalizers...); err == nil {
				err = s.refresh(ctx)
			}
		default:
			head, _ := testfile.HeadOf(m.Text)
			var o memory.Object
			if o, err = find(s.server, head.Ref()); err == nil {
				err = s.change(ctx, ev.Type, o)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) added(ctx context.Context, text []byte) error {
	if _, err := s.server.Add(text, false); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// change makes an event of an object that exists.
func (s *simulation) change(ctx context.Context, typ string, o memory.Object) error {
	switch typ {
	case "Added": // a run has created it, which was no event
		s.listening = false
		if err := s.watched.Remove(ctx, o.Kind.Resource, o.JSON); err != nil {
			return err
		}
		s.listening = true
		return s.watched.Set(ctx, o.Kind.Resource, o.JSON)
	case "Requeue":
		return s.requeueObject(o)
	case "Deleting":
		s.server.MarkDeleted(o)
		if head, err := testfile.HeadOf(o.JSON); err == nil { // the next step, if the finalizer was kept
			s.gates.DeliverDeleting(s.hook, event.Object{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, UID: head.Metadata.UID})
		}
	default:
		s.server.Remove(o)
	}
	return s.refresh(ctx)
}

// finalize removes an object that was marked as deleted, once no finalizer is left.
func (s *simulation) finalize(ctx context.Context, ev testfile.Event) error {
	if ev.Type != "Deleting" || s.result.Err != nil {
		return nil
	}
	refs := []string{ev.Ref}
	if testfile.IsManifest(ev.Ref) {
		manifests, err := testfile.ReadManifests(refs)
		if err != nil {
			return err
		}
		refs = nil
		for _, m := range manifests {
			head, _ := testfile.HeadOf(m.Text)
			refs = append(refs, head.Ref())
		}
	}
	s.listening = true
	for _, ref := range refs {
		o, err := find(s.server, ref)
		if err != nil {
			continue // the hook has removed it
		}
		if head, err := testfile.HeadOf(o.JSON); err != nil || len(head.Metadata.Finalizers) > 0 {
			continue
		}
		s.server.Remove(o)
		if err := s.refresh(ctx); err != nil {
			return err
		}
	}
	s.listening = false
	return s.drain(ctx)
}
