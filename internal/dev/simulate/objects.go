package simulate

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/rbac"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// create creates the objects, except for those that an event adds later.
func (s *simulation) create(manifests []testfile.Manifest) error {
	created := map[string]bool{}
	for _, m := range manifests {
		o, err := s.server.Add(m.Text, s.in.From != "")
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		created[o.Ref()] = true
	}
	for _, ev := range s.in.Events {
		if ev.Type != "Added" || testfile.IsManifest(ev.Ref) {
			continue
		}
		if o, err := find(s.server, ev.Ref); err == nil && created[o.Ref()] {
			s.absent = append(s.absent, o) // with the uid of its place
			s.server.Remove(o)
		}
	}
	return nil
}

// learn serves the kinds that CRDs among the manifests define, and guesses the other kinds of the manifests.
func (s *simulation) learn(manifests ...testfile.Manifest) error {
	for _, m := range manifests {
		s.server.Learn(memory.CRDKinds(m.Text)...)
	}
	for _, m := range manifests {
		head, err := testfile.HeadOf(m.Text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		if err := s.learnKind(head.APIVersion, head.Kind, head.Metadata.Namespace != ""); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// learnBindings serves the kinds of the bindings, of which no object may exist yet.
func (s *simulation) learnBindings() error {
	for _, k := range s.hook.Kubernetes {
		if _, known := s.server.Resolve(k.APIVersion, k.Kind); known || k.Optional {
			continue
		}
		if k.APIVersion == "" {
			return fmt.Errorf("binding %q: the kind %q is not known: add apiVersion to the binding, or its CRD to the objects", k.Name, k.Kind)
		}
		if err := s.learnKind(k.APIVersion, k.Kind, true); err != nil { // most kinds have namespaces
			return fmt.Errorf("binding %q: %w", k.Name, err)
		}
	}
	return nil
}

// learnKind serves a kind that a manifest or an operation names. Namespaced is a guess, for kinds that are not known otherwise.
func (s *simulation) learnKind(apiVersion, kind string, namespaced bool) error {
	if _, known := s.server.Resolve(apiVersion, kind); known {
		return nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if gv.Group == "" {
		return fmt.Errorf("the kind %q is not built into Kubernetes and has no group", kind)
	}
	known, _, err := rbac.Known(apiVersion, kind)
	if err != nil {
		return err
	}
	known.Kind, known.Namespaced = kind, namespaced
	s.server.Learn(memory.Kind{Resource: known, Guessed: true})
	return nil
}

// resolve finds the resource of a binding's kind, which the server has learned.
func (s *simulation) resolve(apiVersion, kind string) (kube.Resource, error) {
	k, ok := s.server.Resolve(apiVersion, kind)
	if !ok {
		return kube.Resource{}, &kube.UnknownKindError{APIVersion: apiVersion, Kind: kind, Simulated: true}
	}
	return k.Resource, nil
}

// refresh makes the bindings follow the changes of the cluster.
func (s *simulation) refresh(ctx context.Context) error {
	for changes := s.changed(); len(changes) > 0; changes = s.changed() { // a change may add a finalizer
		s.changes += len(changes)
		for _, c := range changes {
			deliver := s.watched.Set
			if c.Deleted {
				deliver = s.watched.Remove
			}
			if err := deliver(ctx, c.Kind.Resource, c.JSON); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed returns the changes of the cluster since the last call.
func (s *simulation) changed() []memory.Change {
	changes := s.server.Changes()
	for _, c := range changes {
		s.result.seen = append(s.result.seen, memory.Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name})
	}
	return changes
}

// learnPatches serves the kinds that operations name; one that is unknown is an error of its operation.
func (s *simulation) learnPatches(patches []effect.Patch) {
	learn := func(apiVersion, kind string, namespaced bool) { _ = s.learnKind(apiVersion, kind, namespaced) }
	for _, p := range patches {
		s.server.Learn(memory.CRDKinds(p.Object)...)
		if p.Set == nil {
			if p.Subresource == "" {
				learn(p.APIVersion, p.Kind, p.Namespace != "")
			}
			continue
		}
		owner := cmp.Or(p.Set.Owner, &effect.Owner{})
		for _, m := range p.Set.Objects {
			s.server.Learn(memory.CRDKinds(m.Object)...)
		}
		for _, m := range p.Set.Objects {
			learn(m.APIVersion, m.Kind, m.Namespace != "" || owner.Namespace != "")
		}
		if p.Set.Owner != nil {
			learn(owner.APIVersion, owner.Kind, owner.Namespace != "")
		}
	}
}
