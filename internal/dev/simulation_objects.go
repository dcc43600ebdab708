package dev

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// create creates the objects, except for those that an event adds later.
func (s *simulation) create(manifests []manifest) error {
	add := s.server.Add
	if s.in.From != "" {
		add = s.server.Restore
	}
	scratch := memory.New(memory.Options{}) // to find what Added names
	refs := make([]string, len(manifests))
	for i, m := range manifests {
		h, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if k, known := s.server.Resolve(h.APIVersion, h.Kind); known {
			scratch.Learn(k)
		}
		o, err := scratch.Restore(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		refs[i] = o.Ref()
	}
	for _, ev := range s.in.Events {
		if ev.Type != "Added" || isManifest(ev.Ref) {
			continue
		}
		if o, err := scratch.Find(ev.Ref); err == nil {
			s.absent[o.Ref()] = o.JSON
		}
	}
	for i, m := range manifests {
		if _, err := add(m.text); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if s.absent[refs[i]] != nil { // it has been there for its uid
			o, err := s.server.Find(refs[i])
			if err != nil {
				return err
			}
			s.server.Remove(o)
		}
	}
	return nil
}

// manifest is an object and the file that it is from.
type manifest struct {
	path string
	text []byte
}

// readManifests reads files, and all manifests below directories.
func readManifests(paths []string) (all []manifest, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fmt.Errorf("cannot read the objects: %w", err)
			case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case d.IsDir(), file != path && !isManifest(file):
				return nil
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("cannot read the objects: %w", err)
			}
			objects, err := testfile.Manifests(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, o := range objects {
				all = append(all, manifest{file, o})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// learn serves the kinds of manifests: those of CRDs among them, and guessed ones.
func (s *simulation) learn(ctx context.Context, manifests ...manifest) error {
	for _, m := range manifests {
		for _, k := range crdKinds(m.text) {
			s.server.Learn(k)
		}
	}
	for _, m := range manifests {
		head, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if err := s.store.learn(ctx, head.APIVersion, head.Kind, head.Metadata.Namespace != ""); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// resolve finds the resource of a binding's kind, which the store has learned.
func (s *simulation) resolve(apiVersion, kind string) (kube.Resource, error) {
	k, ok := s.server.Resolve(apiVersion, kind)
	if !ok {
		return kube.Resource{}, fmt.Errorf("the kind %q is not known", kind)
	}
	return k.Resource, nil
}

// refresh makes the bindings follow the changes of the cluster.
func (s *simulation) refresh(ctx context.Context) error {
	before := len(s.result.diffs)
	defer func() { sortDiffs(s.result.diffs[before:]) }()
	for changes := s.server.Changes(); len(changes) > 0; changes = s.server.Changes() { // a change may add a finalizer
		for _, c := range changes {
			if s.collecting {
				if err := s.collect(c); err != nil {
					return err
				}
			}
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

// collect adds what a change is to the result.
func (s *simulation) collect(c memory.Change) error {
	after := c.JSON
	if c.Deleted {
		after = nil
	}
	d, err := objectDiff(c.Before, after)
	if err == nil && len(d.Lines) > 0 {
		s.result.diffs = append(s.result.diffs, d)
	}
	return err
}

// named reports whether a reference as users write it is that of an object.
func named(ref, text string, server *memory.Server) bool {
	have, want := strings.Split(ref, "/"), strings.Split(text, "/")
	if k, ok := server.Resolve("", want[0]); ok {
		want[0] = strings.ToLower(k.Kind)
	}
	return strings.EqualFold(have[0], want[0]) && have[len(have)-1] == want[len(want)-1] &&
		(len(want) == 2 || slices.Equal(have[1:], want[1:]))
}

// readBack makes the bindings follow what operations have changed.
func (s *simulation) readBack(ctx context.Context) error {
	s.collecting = s.diff && s.dry == nil
	defer func() { s.collecting = false }()
	return s.refresh(ctx)
}

// learnPatches serves the kinds that operations name; one that is unknown is an error of its operation.
func (s *simulation) learnPatches(ctx context.Context, patches []effect.Patch) {
	for _, p := range patches {
		for _, k := range crdKinds(p.Object) {
			s.server.Learn(k)
		}
		switch {
		case p.Set != nil:
			s.learnSet(ctx, p.Set)
		case p.Subresource == "":
			_ = s.store.learn(ctx, p.APIVersion, p.Kind, p.Namespace != "")
		}
	}
}

// learnSet serves the kinds of a set and of its owner.
func (s *simulation) learnSet(ctx context.Context, set *effect.ObjectSet) {
	for _, m := range set.Objects {
		for _, k := range crdKinds(m.Object) {
			s.server.Learn(k)
		}
	}
	for _, m := range set.Objects {
		_ = s.store.learn(ctx, m.APIVersion, m.Kind, m.Namespace != "" || set.Owner != nil && set.Owner.Namespace != "")
	}
	if o := set.Owner; o != nil {
		_ = s.store.learn(ctx, o.APIVersion, o.Kind, o.Namespace != "")
	}
}
