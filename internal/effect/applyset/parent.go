package applyset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// maxPlaces bounds the size of the parent and the number of lists of a Sync.
const maxPlaces = 2000

// places are the namespaces of members by kind; a kind without namespaces has the namespace "".
type places map[schema.GroupKind][]string

func (p places) add(r ref) {
	if at, found := slices.BinarySearch(p[r.GroupKind], r.namespace); !found {
		p[r.GroupKind] = slices.Insert(p[r.GroupKind], at, r.namespace)
	}
}

func (p places) has(r ref) bool {
	_, found := slices.BinarySearch(p[r.GroupKind], r.namespace)
	return found
}

func (p places) union(other places) places {
	all := places{}
	for _, some := range []places{p, other} {
		for kind, namespaces := range some {
			for _, namespace := range namespaces {
				all.add(ref{GroupKind: kind, namespace: namespace})
			}
		}
	}
	return all
}

func (p places) equal(other places) bool { return maps.EqualFunc(p, other, slices.Equal[[]string]) }

// namespaces returns all namespaces but one.
func (p places) namespaces(without string) []string {
	all := map[string]bool{}
	for _, some := range p {
		for _, namespace := range some {
			all[namespace] = true
		}
	}
	delete(all, "")
	delete(all, without)
	return slices.Sorted(maps.Keys(all))
}

// number counts kinds and namespaces.
func (p places) number() int { return len(p) + len(p.namespaces("")) }

func (p places) kinds() []string {
	var all []string
	for kind := range p {
		all = append(all, kind.String())
	}
	slices.Sort(all)
	return all
}

func (p places) MarshalJSON() ([]byte, error) {
	byName := map[string][]string{}
	for kind, namespaces := range p {
		byName[kind.String()] = namespaces
	}
	return json.Marshal(byName)
}

func (p places) UnmarshalJSON(text []byte) error {
	var byName map[string][]string
	if err := json.Unmarshal(text, &byName); err != nil {
		return err
	}
	for kind, namespaces := range byName {
		for _, namespace := range namespaces {
			p.add(ref{GroupKind: schema.ParseGroupKind(kind), namespace: namespace})
		}
	}
	return nil
}

// parent is the ConfigMap that makes a set known to other tools, and to the next process.
type parent struct {
	live
	places places
}

// readParent reads the parent; nil means that there is none.
func (s *session) readParent(ctx context.Context) error {
	text, err := kube.Send(ctx, s.opts.Client.Get().AbsPath(s.parentPath()...))
	if apierrors.IsNotFound(err) {
		s.parent = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read its parent: %w", explain(err, parentResource, s.namespace, "get"))
	}
	return s.parseParent(text)
}

func (s *session) parseParent(text []byte) error {
	p := &parent{}
	if err := json.Unmarshal(text, &p.live); err != nil {
		return fmt.Errorf("cannot read its parent: %w", err)
	}
	where := fmt.Sprintf("its parent ConfigMap %s/%s", s.namespace, s.names.parent)
	var err error
	if p.places, err = placesOf(&p.live); err != nil {
		return fmt.Errorf("%s %w", where, err)
	}
	for annotation, want := range map[string]string{setAnnotation: s.names.set, ownerAnnotation: s.names.owner} {
		if is := p.Annotations[annotation]; is != want {
			return fmt.Errorf("%s has the annotation %s: %q instead of %q: remove the ConfigMap if it is not of this operator", where,
				annotation, is, want)
		}
	}
	s.parent = p
	return nil
}

// placesOf returns the places in the annotations of a parent, or what is wrong with them.
func placesOf(p *live) (places, error) {
	if is := p.Annotations[formatAnnotation]; is != format {
		return nil, fmt.Errorf("has format %q, this operator knows format %q: upgrade the operator", is, format)
	}
	all := places{}
	if err := json.Unmarshal([]byte(p.Annotations[placesAnnotation]), &all); err != nil {
		return nil, fmt.Errorf("has an invalid annotation %s: %w", placesAnnotation, err)
	}
	if all.number() > maxPlaces {
		return nil, fmt.Errorf("has an invalid annotation %s: more than %d kinds and namespaces", placesAnnotation, maxPlaces)
	}
	return all, nil
}

// number identifies the last change of a set: the parent that counts it may be another one.
func (p *parent) number() string { return string(p.UID) + "/" + p.Annotations[syncAnnotation] }

// next is the number after the last one, as an annotation.
func (p *parent) next() string {
	if p == nil {
		return "1"
	}
	n, _ := strconv.Atoi(p.Annotations[syncAnnotation])
	return strconv.Itoa(n + 1)
}

// overtaken makes the error of a write of the parent errOvertaken if the parent is not the one that was read.
func overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: %w", errOvertaken, err)
	}
	return err
}

// writeParent updates the parent that was read to list these places, and counts a change of the set if it raises. It sends no request if
// the parent is unchanged.
func (s *session) writeParent(ctx context.Context, recorded places, raises bool) error {
	if n := recorded.number(); n > maxPlaces {
		return fmt.Errorf("its objects have %d kinds and namespaces, and at most %d are possible: make more sets", n, maxPlaces)
	}
	text, _ := json.Marshal(recorded) // it has texts only
	annotations := map[string]any{
		toolingAnnotation: "shell-operator/" + s.opts.Version, groupKindsAnnotation: strings.Join(recorded.kinds(), ","),
		namespacesAnnotation: strings.Join(recorded.namespaces(s.namespace), ","), placesAnnotation: string(text),
		setAnnotation: s.names.set, formatAnnotation: format, pruneKindsAnnotation: nil,
	}
	pruneKinds := strings.Join(s.set.PruneKinds, ",")
	if pruneKinds != "" {
		annotations[pruneKindsAnnotation] = pruneKinds
	}
	if s.names.owner != "" {
		annotations[ownerAnnotation] = s.names.owner
	}
	if s.adopts != "" {
		annotations[adoptedAnnotation] = s.adopts
	}
	if raises {
		annotations[syncAnnotation] = s.parent.next()
	}
	if s.parent != nil && !raises && s.parent.Annotations[pruneKindsAnnotation] == pruneKinds && s.parent.places.equal(recorded) {
		return nil
	}
	metadata := map[string]any{"name": s.names.parent, "namespace": s.namespace, "labels": map[string]string{idLabel: s.id},
		"annotations": annotations}
	verb, req := "create", s.opts.Client.Post().AbsPath(parentResource.Path(s.namespace)...)
	if s.parent == nil {
		maps.DeleteFunc(annotations, func(_ string, value any) bool { return value == nil })
	} else {
		verb, req = "patch", s.opts.Client.Patch(types.MergePatchType).AbsPath(s.parentPath()...)
		metadata["uid"], metadata["resourceVersion"] = s.parent.UID, s.parent.ResourceVersion
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
	if err != nil {
		return err
	}
	if verb == "create" {
		req = req.SetHeader("Content-Type", "application/json")
	}
	answer, err := kube.Send(ctx, s.write(req).Body(body))
	if err != nil {
		return fmt.Errorf("cannot %s its parent: %w", verb,
			overtaken(explain(err, parentResource, s.namespace, "create", "patch")))
	}
	return s.parseParent(answer)
}

// isOwner reports whether a reference is to the owner of the set, possibly to an earlier object with its name.
func (s *session) isOwner(r metav1.OwnerReference) bool {
	if s.set.Owner == nil || r.Kind != s.ownerKind.Kind || r.Name != s.set.Owner.Name {
		return false
	}
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	return err == nil && gv.Group == s.ownerKind.Group
}

// deleteParent ends the set, if the parent is the one that was read before the members.
func (s *session) deleteParent(ctx context.Context) error {
	if s.parent == nil {
		return nil
	}
	err := s.deleteObject(ctx, parentResource, s.parentPath(), &s.parent.live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete its parent: %w", overtaken(explain(err, parentResource, s.namespace, "delete")))
	}
	s.parent = nil
	return nil
}

var parentResource = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	Kind: "ConfigMap", Namespaced: true}

func (s *session) parentPath() []string {
	return append(parentResource.Path(s.namespace), s.names.parent)
}

// explain adds the RBAC rule to an error about a missing permission for objects.
func explain(err error, res kube.Resource, namespace string, verbs ...string) error {
	return kube.Explain(err, namespace, kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: verbs})
}
