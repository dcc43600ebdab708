// Package memory is an API server in memory, for tests of hooks: the operator's own client sends its requests to it.
//
// Callers may rely on this:
//   - Objects get a uid, a resource version and a generation as from an API server. Writes that change nothing are no changes.
//   - Create, get, list, update, all patches and delete return the statuses of an API server, as far as they do not depend on admission or
//     permissions, and metadata is validated. Unknown and mistyped fields of built-in kinds are rejected, as with fieldValidation=Strict.
//   - Objects, managers and watch events of ConfigMaps, Secrets, Leases, Namespaces and custom resources equal what an API server sends.
//   - Fields have managers; only answers to requests show managedFields. Finalizers keep a deleted object, status is a subresource where
//     the kind has one.
//   - Changes are reported in order. Identical requests lead to identical objects: uids and times are not random, unless the
//     server is live.
//   - A watch whose client does not read ends, and holds back nothing: 4096 changes or more are kept.
//
// Not attempted: defaults, exact types and validation of values of other kinds, admission, controllers (garbage collection), permissions,
// conversion between versions, tables. Server-side apply of kinds whose fields are not known merges maps and replaces lists.
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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Kind is a kind that the server serves.
type Kind struct {
	kube.Resource
	// Status and Scale report the subresources. A guessed kind has both. Custom: a CRD defines it.
	Status, Scale, Guessed, Custom bool
	// Selectable are the fields that field selectors may name, but for those that all kinds have.
	Selectable []string
	// Warning is sent with each answer about a custom kind whose version is deprecated.
	Warning string
	// schema is the type of a custom kind, if its CRD says more than that it is an object.
	schema *typed.ParseableType
}

// Object is an object of the server.
type Object struct {
	Kind            Kind
	Namespace, Name string
	JSON            []byte
}

// Ref is KIND/NAMESPACE/NAME, or KIND/NAME.
func (o *Object) Ref() string { return ref(o.Kind, o.key()) }

func ref(k Kind, at key) string { return path.Join(strings.ToLower(k.Kind), at.namespace, at.name) }

// Change is a change of an object.
type Change struct {
	Object
	Deleted bool
}

// key identifies an object.
type key struct {
	schema.GroupResource
	namespace, name string
}

// stored is an object, and the managers of its fields as in its metadata. It is immutable once the Server has it.
type stored struct {
	kind    Kind
	tree    map[string]any
	managed []any
	// given: the managers came with the object, which has them wherever it is read.
	given bool
}

// event is an entry of the log: a change of an object, whose state before is nil if there was none.
type event struct {
	version       int
	at            key
	before, after *stored
	deleted       bool
}

// Options of a Server.
type Options struct {
	Kinds []Kind
	// Warn, if it is set, is called with the unknown and mistyped fields of an object of a built-in kind, which are accepted.
	Warn func(text string)
	// Live: clients see what they see of an API server that runs: real times, random uids, Namespaces that must exist and that end, CRDs that
	// are served when they are posted. The log is bounded; Changes returns nothing.
	Live bool
}

// Server is an API server in memory. It is safe for concurrent use.
type Server struct {
	live bool
	warn func(text string)
	// patience is how long a client may leave what a watch sends before its connection is closed.
	patience time.Duration

	mu        sync.Mutex
	kinds     []Kind
	objects   map[key]*stored
	version   int
	uids      int
	log       []event
	changed   chan struct{} // closed at the next change
	forgotten int           // the newest version that the log has no more
}

// New returns a Server that serves kinds.
func New(o Options) *Server {
	s := &Server{live: o.Live, warn: o.Warn, patience: 10 * time.Second, kinds: slices.Clone(o.Kinds),
		objects: map[key]*stored{}, changed: make(chan struct{})}
	if s.live {
		s.initialNamespaces()
	}
	return s
}

// Resolve returns a kind as bindings and operations name it.
func (s *Server) Resolve(apiVersion, name string) (Kind, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolve(apiVersion, name)
}

func (s *Server) resolve(apiVersion, name string) (Kind, bool) {
	for _, k := range s.kinds {
		if k.Called(name) && (apiVersion == "" || apiVersion == k.GroupVersion().String()) {
			return k, true
		}
	}
	return Kind{}, false
}

// Guessed reports whether the kind of a resource was guessed.
func (s *Server) Guessed(resource schema.GroupResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.kinds, func(k Kind) bool { return k.Guessed && k.GroupResource() == resource })
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

// Add stores an object as given, with what an API server adds. The namespace of a namespaced object is "default" if it has none. Its
// fields are not checked if an API server, perhaps a newer one, has accepted it before.
func (s *Server) Add(manifest []byte, accepted bool) (Object, error) {
	return s.put(manifest, func(at key, o, live *stored) (*stored, error) {
		if live != nil {
			return nil, fmt.Errorf("%s is there twice", ref(o.kind, at))
		}
		if !accepted {
			if err := s.checked(at, o, nil); err != nil {
				return nil, err
			}
		}
		s.store(at, o)
		return o, nil
	})
}

// Replace gives an object a new version; it must exist. If the manifest has no finalizers, the object keeps those that are named: a client
// that applies it would not remove what the operator has added.
func (s *Server) Replace(manifest []byte, finalizers ...string) (Object, error) {
	return s.put(manifest, func(at key, o, live *stored) (*stored, error) {
		if live == nil {
			return nil, fmt.Errorf("there is no %s that could be modified", ref(o.kind, at))
		}
		if err := s.checked(at, o, live.tree); err != nil {
			return nil, err
		}
		next := metadataOf(o.tree)
		delete(next, "uid")
		own, given := next["finalizers"].([]any)
		if had, _ := metadataOf(live.tree)["finalizers"].([]any); !given {
			own = slices.DeleteFunc(slices.Clone(had), func(f any) bool { return !slices.Contains(finalizers, fmt.Sprint(f)) })
		}
		if next["finalizers"] = own; len(own) == 0 {
			delete(next, "finalizers") // as an API server does
		}
		return s.update(at, live, o), nil
	})
}

// put stores what how makes of an object, and of the one of its name that is stored.
func (s *Server) put(manifest []byte, how func(at key, o, live *stored) (*stored, error)) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, o, err := s.manifest(manifest)
	if err != nil {
		return Object{}, err
	}
	if o, err = how(at, o, s.objects[at]); err != nil {
		return Object{}, err
	}
	return s.object(at, o), nil
}

// checked returns the mistakes in an object as an error. It requires mu.
func (s *Server) checked(at key, o *stored, before map[string]any) error {
	found, _ := s.mistakes(o.kind, at, before, o.tree)
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s: correct the object, or set fieldValidation to Warn", ref(o.kind, at), strings.Join(found, ", "))
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
	o.given = o.takeManagers(!s.live)
	return keyOf(k, tree), o, nil
}

// MarkDeleted sets the time of deletion of an object.
func (s *Server) MarkDeleted(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := s.objects[o.key()]
	s.update(o.key(), live, s.deleting(live))
}

// Remove removes an object, whatever finalizers it has.
func (s *Server) Remove(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(o.key(), s.objects[o.key()])
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

// Objects returns all objects without their JSON, sorted by reference.
func (s *Server) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Object, 0, len(s.objects))
	for at, o := range s.objects {
		all = append(all, Object{Kind: o.kind, Namespace: at.namespace, Name: at.name})
	}
	slices.SortFunc(all, func(a, b Object) int { return cmp.Compare(a.Ref(), b.Ref()) })
	return all
}

// Changes returns the changes since the last call.
func (s *Server) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live || len(s.log) == 0 {
		return nil
	}
	changes := make([]Change, len(s.log))
	for i, e := range s.log {
		changes[i] = Change{Object: s.object(e.at, e.after), Deleted: e.deleted}
	}
	s.log, s.forgotten = nil, s.version
	return changes
}

// moment is the time of everything that happens here, unless the Server is live.
const moment = "2024-01-01T00:00:00Z"

// Now returns this time.
func Now() time.Time { return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) }

func (s *Server) now() string {
	if s.live {
		return time.Now().UTC().Format(time.RFC3339)
	}
	return moment
}

// history is how many changes the log of a live server keeps: a client that is further behind has to list again.
const history = 4096

// record stores what an event says, and wakes the watches. It requires mu.
func (s *Server) record(e event) {
	if e.deleted {
		delete(s.objects, e.at)
	} else {
		s.objects[e.at] = e.after
	}
	e.version = s.version
	s.log = append(s.log, e)
	if excess := len(s.log) - history; s.live && excess >= history {
		s.forgotten = s.log[excess-1].version
		s.log = slices.Delete(s.log, 0, excess)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// commit gives an object that is not shared yet the next version, and records it. It requires mu.
func (s *Server) commit(at key, before, after *stored, deleted bool) {
	s.version++
	metadataOf(after.tree)["resourceVersion"] = fmt.Sprint(s.version)
	s.record(event{at: at, before: before, after: after, deleted: deleted})
}

// store adds an object. It requires mu.
func (s *Server) store(at key, o *stored) {
	s.complete(at, o)
	s.commit(at, nil, o, false)
	s.defined(at, o)
}

// complete adds what an API server adds to a new object. It requires mu.
func (s *Server) complete(at key, o *stored) {
	s.uids++
	metadata := metadataOf(o.tree)
	if metadata["uid"] == nil {
		metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)
		if s.live {
			metadata["uid"] = string(uuid.NewUUID())
		}
	}
	if metadata["creationTimestamp"] == nil {
		metadata["creationTimestamp"] = s.now()
	}
	if o.kind.generated() && metadata["generation"] == nil {
		metadata["generation"] = int64(1)
	}
	if at.GroupResource == crds {
		o.tree["status"] = established()
	}
}

// kept are fields of metadata that no update changes.
var kept = []string{"uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"}

// revised completes what replaces an object by what an API server keeps of it.
func revised(live, next *stored) {
	before, after := metadataOf(live.tree), metadataOf(next.tree)
	for _, field := range kept {
		value, had := before[field]
		switch {
		case field == "uid" && after[field] != nil: // it has to be the same
		case had:
			after[field] = value
		case !strings.HasPrefix(field, "deletion"):
			delete(after, field)
		}
	}
	generation, ok := before["generation"].(int64)
	if ok && !reflect.DeepEqual(next.kind.desired(live.tree), next.kind.desired(next.tree)) ||
		after["deletionTimestamp"] != before["deletionTimestamp"] && ok {
		after["generation"] = generation + 1
	}
}

// update replaces an object, and returns what is stored then: the same if they are equal. It requires mu.
func (s *Server) update(at key, live, next *stored) *stored {
	revised(live, next)
	switch equal := reflect.DeepEqual(live.tree, next.tree); {
	case equal && s.live && sameManagers(live.managed, next.managed):
		return live
	case equal && !s.live: // managers alone are no change
		s.objects[at] = next
		return next
	}
	before, after := metadataOf(live.tree), metadataOf(next.tree)
	finalizers, _ := after["finalizers"].([]any)
	if _, had := before["finalizers"]; before["deletionTimestamp"] != nil && had && len(finalizers) == 0 && !s.contains(at) {
		s.remove(at, live)
		return next
	}
	s.commit(at, live, next, false)
	s.defined(at, next)
	return next
}

// remove requires mu.
func (s *Server) remove(at key, live *stored) {
	last := *live
	last.tree = with(live.tree, "resourceVersion", "") // the next one
	s.commit(at, live, &last, true)
	s.emptied(at)
}

// deleting is an object with the time of its deletion.
func (s *Server) deleting(live *stored) *stored {
	next := *live
	next.tree = with(live.tree, "deletionTimestamp", cmp.Or[any](metadataOf(live.tree)["deletionTimestamp"], s.now()))
	if at := next.kind.GroupResource(); s.live && at != namespaces {
		metadataOf(next.tree)["deletionGracePeriodSeconds"] = int64(0)
	}
	return &next
}

// with is an object with another field of its metadata. The given one is not changed.
func with(tree map[string]any, field string, value any) map[string]any {
	tree, metadata := maps.Clone(tree), maps.Clone(metadataOf(tree))
	metadata[field] = value
	tree["metadata"] = metadata
	return tree
}

// desired is what a change of makes a new generation: the object without metadata, and without a status that is a subresource.
func (k *Kind) desired(tree map[string]any) map[string]any {
	rest := maps.Clone(tree)
	delete(rest, "metadata")
	if k.Status || !k.Custom {
		delete(rest, "status")
	}
	return rest
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
	o := unstructured.Unstructured{Object: tree}
	return key{k.GroupResource(), o.GetNamespace(), o.GetName()}
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
	if err = json.Unmarshal(text, &tree); err != nil {
		if yaml.Unmarshal(text, &tree) != nil {
			return nil, fmt.Errorf("it is no object: %w", err)
		}
	}
	if tree == nil {
		return nil, fmt.Errorf("it is no object: %s", text)
	}
	return tree, nil
}
