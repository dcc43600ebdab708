// Package memory is an API server in memory, for tests of hooks: the operator's own client sends its requests to it.
//
// Callers may rely on this:
//   - Objects get a uid, a resource version and a generation as from an API server. Writes that change nothing are no changes.
//   - Create, get, list, update, merge patch, JSON patch, server-side apply and delete return the statuses of an API server, as far as they
//     do not depend on admission or permissions. Unknown and mistyped fields of built-in kinds are rejected, as with
//     fieldValidation=Strict.
//   - Fields have managers; only answers to requests show managedFields. Finalizers keep a deleted object, status is a subresource where
//     the kind has one.
//   - Changes are reported in order. Identical requests lead to identical objects: uids and times are not random.
//   - Mirrored objects are equal to those of another API server, until they are changed here.
//
// Not attempted: defaulting, validation of values, admission, controllers (garbage collection, Namespaces), conversion between versions,
// watches. Server-side apply of kinds that are not built in merges maps and replaces lists; Approximate names the objects where that can
// differ.
package memory

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Kind is a kind that the server serves.
type Kind struct {
	kube.Resource
	ShortNames []string
	// Status and Scale report the subresources. A guessed kind has both.
	Status, Scale, Guessed bool
}

func (k *Kind) called(text string) bool {
	return strings.EqualFold(text, k.Kind) || strings.EqualFold(text, k.GroupVersionResource.Resource) ||
		slices.ContainsFunc(k.ShortNames, func(short string) bool { return strings.EqualFold(short, text) })
}

// Object is an object of the server.
type Object struct {
	Kind            Kind
	Namespace, Name string
	JSON            []byte
}

// Ref is the object's reference, as Find reads it.
func (o *Object) Ref() string {
	return strings.ToLower(o.Kind.Kind) + suffixed(o.Namespace) + "/" + o.Name
}

func suffixed(namespace string) string {
	if namespace == "" {
		return ""
	}
	return "/" + namespace
}

// Change is a change of an object.
type Change struct {
	Object
	Deleted bool
	// Before is the object before the change; nil if there was none.
	Before []byte
}

// key identifies an object.
type key struct {
	schema.GroupResource
	namespace, name string
}

// stored is an object, and the managers of its fields as in its metadata.
type stored struct {
	kind    Kind
	tree    map[string]any
	managed []any
	// given: the managers came with the object, which has them wherever it is read.
	given bool
}

// Options of a Server.
type Options struct {
	Kinds []Kind
	// Lenient accepts unknown and mistyped fields of built-in kinds; Mistakes has them.
	Lenient bool
}

// Server is an API server in memory. It is safe for concurrent use.
type Server struct {
	lenient bool

	mu          sync.Mutex
	kinds       []Kind
	objects     map[key]*stored
	version     int
	uids        int
	changes     []Change
	approximate map[string]bool
	mistakes    []string
}

// New returns a Server that serves kinds.
func New(o Options) *Server {
	return &Server{lenient: o.Lenient, kinds: slices.Clone(o.Kinds), objects: map[key]*stored{}, approximate: map[string]bool{}}
}

// Resolve returns a kind as bindings and operations name it.
func (s *Server) Resolve(apiVersion, name string) (Kind, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolve(apiVersion, name)
}

func (s *Server) resolve(apiVersion, name string) (Kind, bool) {
	for _, k := range s.kinds {
		if k.called(name) && (apiVersion == "" || apiVersion == k.GroupVersion().String()) {
			return k, true
		}
	}
	return Kind{}, false
}

// ResolveResource returns the kind of a resource.
func (s *Server) ResolveResource(res schema.GroupVersionResource) (Kind, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		if k.GroupVersionResource == res {
			return k, true
		}
	}
	return Kind{}, false
}

// Guessed reports whether only the kind of a resource was known, and no CRD.
func (s *Server) Guessed(group, resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		if k.Group == group && k.GroupVersionResource.Resource == resource {
			return k.Guessed
		}
	}
	return false
}

// Learn serves kinds, unless there is one with the same name in the same version.
func (s *Server) Learn(kinds ...Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kinds {
		if _, known := s.resolve(k.GroupVersion().String(), k.Kind); !known {
			s.kinds = append(s.kinds, k)
		}
	}
}

// Add stores an object as given, with what an API server adds. The namespace of a namespaced object is "default" if it has none.
func (s *Server) Add(manifest []byte) (Object, error) { return s.add(manifest, s.checked) }

// Restore is Add for an object that an API server has accepted before, perhaps a newer one.
func (s *Server) Restore(manifest []byte) (Object, error) {
	return s.add(manifest, func(key, *stored, map[string]any) error { return nil })
}

func (s *Server) add(manifest []byte, check func(key, *stored, map[string]any) error) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, o, err := s.manifest(manifest)
	if err != nil {
		return Object{}, err
	}
	if err := check(at, o, nil); err != nil {
		return Object{}, err
	}
	if s.objects[at] != nil {
		return Object{}, fmt.Errorf("%s is there twice", (&Object{Kind: o.kind, Namespace: at.namespace, Name: at.name}).Ref())
	}
	s.store(at, o)
	return s.object(at, o), nil
}

// Replace gives an object a new version; it must exist.
func (s *Server) Replace(manifest []byte) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, o, err := s.manifest(manifest)
	if err != nil {
		return Object{}, err
	}
	live := s.objects[at]
	if live == nil {
		return Object{}, fmt.Errorf("there is no %s that could be modified%s",
			(&Object{Kind: o.kind, Namespace: at.namespace, Name: at.name}).Ref(), s.names(o.kind))
	}
	if err := s.checked(at, o, live.tree); err != nil {
		return Object{}, err
	}
	s.update(at, live, o.tree)
	return s.object(at, live), nil
}

// checked returns the mistakes in an object as an error, or keeps them as a note. It requires mu.
func (s *Server) checked(at key, o *stored, before map[string]any) error {
	found := mistakes(o.kind, before, o.tree)
	if len(found) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s: %s", (&Object{Kind: o.kind, Namespace: at.namespace, Name: at.name}).Ref(), strings.Join(found, ", "))
	if s.lenient {
		s.mistakes = append(s.mistakes, text)
		return nil
	}
	return fmt.Errorf("%s: correct the object, or set fieldValidation to Warn", text)
}

// Mistakes returns the unknown and mistyped fields that a lenient Server has accepted since the last call.
func (s *Server) Mistakes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.mistakes
	s.mistakes = nil
	return found
}

// Mirror makes an object equal to one that an API server has returned.
func (s *Server) Mirror(text []byte) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, o, err := s.manifest(text)
	if err != nil {
		return Object{}, err
	}
	before := []byte(nil)
	if live := s.objects[at]; live != nil {
		if reflect.DeepEqual(live.tree, o.tree) && reflect.DeepEqual(live.managed, o.managed) {
			return s.object(at, live), nil
		}
		before = s.object(at, live).JSON
	}
	s.objects[at] = o
	s.changes = append(s.changes, Change{Object: s.object(at, o), Before: before})
	return s.object(at, o), nil
}

// manifest reads an object. It requires mu.
func (s *Server) manifest(text []byte) (key, *stored, error) {
	tree, err := decode(text)
	if err != nil {
		return key{}, nil, err
	}
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	k, ok := s.resolve(apiVersion, kind)
	if !ok {
		return key{}, nil, fmt.Errorf("the kind %q of %q is not known", kind, apiVersion)
	}
	metadata := metadataOf(tree)
	if name, _ := metadata["name"].(string); name == "" {
		return key{}, nil, fmt.Errorf("a %s has no metadata.name", kind)
	}
	if namespace, _ := metadata["namespace"].(string); k.Namespaced && namespace == "" {
		metadata["namespace"] = "default"
	} else if !k.Namespaced {
		delete(metadata, "namespace")
	}
	o := &stored{kind: k, tree: tree}
	o.given = o.takeManagers()
	return keyOf(k, tree), o, nil
}

// MarkDeleted sets the time of deletion of an object.
func (s *Server) MarkDeleted(o Object) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := o.key()
	live := s.objects[at]
	tree := runtime.DeepCopyJSON(live.tree)
	metadataOf(tree)["deletionTimestamp"] = moment
	s.update(at, live, tree)
	return s.object(at, live)
}

// Remove removes an object, whatever finalizers it has.
func (s *Server) Remove(o Object) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := o.key()
	last := s.object(at, s.objects[at])
	s.remove(at)
	return last
}

func (o *Object) key() key { return key{o.Kind.GroupResource(), o.Namespace, o.Name} }

// Get returns the current state of an object.
func (s *Server) Get(o Object) (Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.objects[o.key()]
	if live == nil {
		return Object{}, false
	}
	return s.object(o.key(), live), true
}

// Find returns the object of a reference: KIND/NAME or KIND/NAMESPACE/NAME. The kind is a kind, plural or short name. Without such an
// object the error is a NotFound of package errors.
func (s *Server) Find(ref string) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(ref, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return Object{}, fmt.Errorf("%q is no reference: write KIND/NAME or KIND/NAMESPACE/NAME", ref)
	}
	name := parts[len(parts)-1]
	var found, similar []Object
	for at, o := range s.objects {
		if !o.kind.called(parts[0]) {
			continue
		}
		if at.name == name && (len(parts) == 2 || at.namespace == parts[1]) {
			found = append(found, s.object(at, o))
		}
		similar = append(similar, s.object(at, o))
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Object{}, fmt.Errorf("%s is ambiguous: it may be %s", ref, refs(found))
	case len(similar) > 0:
		return Object{}, noObject("there is no object %s%s", ref, others(similar))
	}
	return Object{}, noObject("there is no object %s, and none of its kind", ref)
}

func noObject(format string, args ...any) error {
	err := apierrors.NewNotFound(schema.GroupResource{}, "")
	err.ErrStatus.Message = fmt.Sprintf(format, args...)
	return err
}

// Missing explains that there is no such object, with those of its name in other namespaces, or else others of its kind.
func (s *Server) Missing(o Object) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var named, similar []Object
	for at, other := range s.objects {
		if at.GroupResource != o.Kind.GroupResource() {
			continue
		}
		if similar = append(similar, s.object(at, other)); at.name == o.Name {
			named = append(named, s.object(at, other))
		}
	}
	text := "there is no " + o.Kind.Kind + " " + path.Join(o.Namespace, o.Name)
	switch {
	case len(named) > 0:
		return text + others(named) + ": name the namespace"
	case len(similar) > 0:
		return text + others(similar)
	}
	return text + ", and none of its kind"
}

func (s *Server) names(k Kind) string {
	var similar []Object
	for at, o := range s.objects {
		if at.GroupResource == k.GroupResource() {
			similar = append(similar, s.object(at, o))
		}
	}
	if len(similar) == 0 {
		return ""
	}
	return others(similar)
}

// others follows the statement that there is no such object.
func others(objects []Object) string {
	if len(objects) == 1 {
		return "; there is " + refs(objects)
	}
	return "; there are " + refs(objects)
}

// refs lists references, not more than fit in a message.
func refs(objects []Object) string {
	const most = 5
	names := make([]string, len(objects))
	for i := range objects {
		names[i] = objects[i].Ref()
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// Objects returns all objects, sorted by reference.
func (s *Server) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Object, 0, len(s.objects))
	for at, o := range s.objects {
		all = append(all, s.object(at, o))
	}
	slices.SortFunc(all, func(a, b Object) int { return cmp.Compare(a.Ref(), b.Ref()) })
	return all
}

// Changes returns the changes since the last call.
func (s *Server) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.changes
	s.changes = nil
	return changes
}

// Approximate returns the references of objects that an API server may merge differently.
func (s *Server) Approximate() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.approximate))
}

// moment is the time of everything that happens here.
const moment = "2024-01-01T00:00:00Z"

// Now returns this time.
func Now() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }

// store adds an object. It requires mu.
func (s *Server) store(at key, o *stored) {
	s.uids++
	metadata := metadataOf(o.tree)
	if metadata["uid"] == nil {
		metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)
	}
	if metadata["creationTimestamp"] == nil {
		metadata["creationTimestamp"] = moment
	}
	if o.kind.Status && metadata["generation"] == nil {
		metadata["generation"] = int64(1)
	}
	if at.GroupResource == crds {
		o.tree["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	}
	s.objects[at] = o
	s.stamp(o)
	s.changes = append(s.changes, Change{Object: s.object(at, o)})
}

// crds are established when they are created.
var crds = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

func (s *Server) stamp(o *stored) {
	s.version++
	metadataOf(o.tree)["resourceVersion"] = fmt.Sprint(s.version)
}

// update replaces the content of an object, unless it is equal. It requires mu.
func (s *Server) update(at key, o *stored, tree map[string]any) {
	before, after := metadataOf(o.tree), metadataOf(tree)
	for _, field := range []string{"uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp"} {
		if field == "deletionTimestamp" && after[field] != nil {
			continue
		}
		delete(after, field)
		if value, ok := before[field]; ok {
			after[field] = value
		}
	}
	if reflect.DeepEqual(o.tree, tree) {
		return
	}
	if generation, ok := before["generation"].(int64); ok && !reflect.DeepEqual(desired(o.tree), desired(tree)) {
		after["generation"] = generation + 1
	}
	was := s.object(at, o).JSON
	o.tree = tree
	s.stamp(o)
	finalizers, _ := after["finalizers"].([]any)
	_, hadFinalizers := before["finalizers"]
	if before["deletionTimestamp"] != nil && hadFinalizers && len(finalizers) == 0 {
		s.remove(at)
		return
	}
	s.changes = append(s.changes, Change{Object: s.object(at, o), Before: was})
}

// desired is an object without metadata and status.
func desired(tree map[string]any) map[string]any {
	rest := maps.Clone(tree)
	delete(rest, "metadata")
	delete(rest, "status")
	return rest
}

// remove requires mu.
func (s *Server) remove(at key) {
	o := s.objects[at]
	delete(s.objects, at)
	was := s.object(at, o).JSON
	s.stamp(o)
	s.changes = append(s.changes, Change{Object: s.object(at, o), Deleted: true, Before: was})
}

func (s *Server) object(at key, o *stored) Object {
	tree := o.tree
	if o.given {
		tree = o.shown()
	}
	text, _ := json.Marshal(tree) // it came from JSON
	return Object{Kind: o.kind, Namespace: at.namespace, Name: at.name, JSON: text}
}

func keyOf(k Kind, tree map[string]any) key {
	metadata := metadataOf(tree)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	return key{k.GroupResource(), namespace, name}
}

// metadataOf returns the metadata of an object, and adds it if there is none.
func metadataOf(tree map[string]any) map[string]any {
	metadata, ok := tree["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		tree["metadata"] = metadata
	}
	return metadata
}

// decode reads numbers as an API server does.
func decode(text []byte) (tree map[string]any, err error) {
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("it is no object: %w", err)
	}
	if tree == nil {
		return nil, fmt.Errorf("it is no object: %s", text)
	}
	return tree, nil
}
