package workbench

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/workbench/memory"
	"github.com/shell-operator/shell-operator/internal/workbench/rbac"
	"github.com/shell-operator/shell-operator/internal/workbench/testfile"
)

// create creates the objects, except for those that an event adds later.
func (s *simulation) create(ctx context.Context, manifests []manifest) error {
	scratch := memory.New(nil) // to find what Added names
	refs := make([]string, len(manifests))
	for i, m := range manifests {
		h, err := headOf(m.text)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if k, known := s.server.Resolve(h.APIVersion, h.Kind); known {
			scratch.Learn(k)
		}
		o, err := scratch.Add(m.text)
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
		later := s.absent[refs[i]] != nil
		if later && s.live != nil {
			continue
		}
		if err := s.createObject(ctx, m.text); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		if later { // it has been there for its uid
			o, err := s.server.Find(refs[i])
			if err != nil {
				return err
			}
			s.server.Remove(o)
		}
	}
	return nil
}

// prepareLive checks the objects of the case, those of events included, and creates their namespaces.
func (s *simulation) prepareLive(ctx context.Context, manifests []manifest) error {
	all := slices.Clone(manifests)
	for _, ev := range s.in.Events {
		if ev.Type == "Added" && isManifest(ev.Ref) {
			added, err := readManifests([]string{ev.Ref})
			if err != nil {
				return err
			}
			all = append(all, added...)
		}
	}
	return s.live.prepare(ctx, all)
}

// createObject creates an object.
func (s *simulation) createObject(ctx context.Context, text []byte) error {
	if s.live != nil {
		return s.live.add(ctx, text)
	}
	_, err := s.server.Add(text)
	return err
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
func (s *simulation) learn(manifests ...manifest) error {
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
		if err := s.guess(head.APIVersion, head.Kind, head.Metadata.Namespace != ""); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// guess serves a kind that is neither built in nor defined.
func (s *simulation) guess(apiVersion, kind string, namespaced bool) error {
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
	known, err := rbac.Known(apiVersion, kind)
	if err != nil {
		return err
	}
	s.server.Learn(memory.Kind{
		Resource: kube.Resource{GroupVersionResource: gv.WithResource(known.Resource), Kind: kind, Namespaced: namespaced}, Guessed: true,
	})
	return nil
}

// resolve finds the resource of a binding's kind.
func (s *simulation) resolve(apiVersion, kind string) (kube.Resource, error) {
	if k, ok := s.server.Resolve(apiVersion, kind); ok {
		return k.Resource, nil
	}
	if s.live != nil {
		res, err := s.live.resolver.Resolve(context.Background(), apiVersion, kind)
		if err == nil {
			s.server.Learn(memory.Kind{Resource: res, Guessed: true})
		}
		return res, err
	}
	if apiVersion == "" {
		return kube.Resource{}, fmt.Errorf("the kind %q is not known: add apiVersion to the binding, or its CRD to the objects", kind)
	}
	// No object of it exists yet, and most kinds have namespaces.
	if err := s.guess(apiVersion, kind, true); err != nil {
		return kube.Resource{}, err
	}
	k, _ := s.server.Resolve(apiVersion, kind)
	return k.Resource, nil
}

// refresh makes the bindings follow the changes of the cluster.
func (s *simulation) refresh(ctx context.Context) error {
	finalizes := slices.ContainsFunc(s.hook.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" })
	if err := s.follow(ctx); err != nil || s.live == nil || !finalizes {
		return err
	}
	if err := s.live.readBack(ctx); err != nil { // finalizers were added
		return err
	}
	return s.follow(ctx)
}

func (s *simulation) follow(ctx context.Context) error {
	before := len(s.result.diffs)
	defer func() { sortDiffs(s.result.diffs[before:]) }()
	for _, c := range s.server.Changes() {
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
	return strings.EqualFold(have[0], want[0]) && have[len(have)-1] == want[len(want)-1] && (len(want) == 2 || slices.Equal(have[1:], want[1:]))
}

// readBack makes the bindings follow what operations have changed.
func (s *simulation) readBack(ctx context.Context) error {
	if s.live != nil {
		if err := s.live.readBack(ctx); err != nil {
			return err
		}
	}
	s.collecting = s.diff && s.dry == nil
	defer func() { s.collecting = false }()
	return s.refresh(ctx)
}

// learnPatches serves the kinds that operations name; one that is unknown is an error of its operation.
func (s *simulation) learnPatches(ctx context.Context, patches []effect.Patch) {
	switch {
	case s.live != nil:
		return // the cluster knows
	case s.origin != nil:
		s.origin.learn(ctx, patches)
		return
	}
	for _, p := range patches {
		for _, k := range crdKinds(p.Object) {
			s.server.Learn(k)
		}
		if p.Set != nil {
			s.learnSet(p.Set)
			continue
		}
		if p.APIVersion != "" && p.Subresource == "" {
			_ = s.guess(p.APIVersion, p.Kind, p.Namespace != "")
		}
	}
}

// learnSet serves the kinds of a set and of its owner.
func (s *simulation) learnSet(set *effect.ObjectSet) {
	for _, m := range set.Objects {
		for _, k := range crdKinds(m.Object) {
			s.server.Learn(k)
		}
	}
	for _, m := range set.Objects {
		_ = s.guess(m.APIVersion, m.Kind, m.Namespace != "" || set.Owner != nil && set.Owner.Namespace != "")
	}
	if o := set.Owner; o != nil {
		_ = s.guess(o.APIVersion, o.Kind, o.Namespace != "")
	}
}
