package stream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// Object is a Kubernetes object as the API server sent it: bytes and a few indexed fields. It is immutable once it is delivered.
type Object struct {
	// Key is "namespace\x00name". Its byte order is the order of snapshots.
	Key             string
	Namespace, Name string
	Kind            string
	UID             string
	ResourceVersion string
	// JSON is nil if no consumer keeps objects.
	JSON []byte
	// lifetime is set only if a consumer reads it.
	lifetime *lifetime
}

// GetObjectKind and the methods below serve the reflector: it requires a runtime.Object, and calls four getters of its metadata.
func (o *Object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *Object) DeepCopyObject() runtime.Object   { c := *o; return &c }
func (o *Object) GetObjectMeta() metav1.Object     { return &objectMeta{object: o} }

type objectMeta struct {
	metav1.Object // nil: other methods panic
	object        *Object
}

func (m *objectMeta) GetNamespace() string              { return m.object.Namespace }
func (m *objectMeta) GetName() string                   { return m.object.Name }
func (m *objectMeta) GetResourceVersion() string        { return m.object.ResourceVersion }
func (m *objectMeta) GetAnnotations() map[string]string { return nil }

// objectList is one page of a list.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (l *objectList) arrivals() []*arrival {
	all := make([]*arrival, len(l.Items))
	for i, o := range l.Items {
		all[i] = o.(*arrival)
	}
	return all
}

func (l *objectList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

// indexer reads the indexed fields of an object's JSON. It reuses strings, so each decoding goroutine has its own.
type indexer struct {
	intern map[string]string

	keepManagedFields bool
	// part has the objects that are kept. foreign is the version of the last other one, spare its memory.
	part    Part
	foreign []byte
	spare   *Object
	// fallbackKind and fallbackVersion are for the items of a list, which need not repeat them.
	fallbackKind, fallbackVersion string
}

// lenient: the API server sends JSON; the strings that it accepted are passed on as they are.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func newIndexer(keepManagedFields bool) *indexer {
	return &indexer{intern: map[string]string{}, keepManagedFields: keepManagedFields}
}

// errForeign is the error of an object that belongs to another shard.
var errForeign = errors.New("the object belongs to another shard")

// scan reads the indexed fields of raw, which is a valid JSON value. The object has no JSON yet: layout makes it.
func (x *indexer) scan(raw []byte) (*Object, layout, error) {
	o := x.spare
	if x.spare = nil; o == nil {
		o = &Object{}
	}
	*o = Object{}
	w := jq.Walk(raw)
	var hasKind, hasVersion bool
	managed := span{}
	if !w.Enter('{') {
		return nil, layout{}, errors.New("object is not a JSON object")
	}
	for name := w.Member(); name != nil; name = w.Member() {
		var err error
		switch string(name) {
		case `"kind"`:
			hasKind = true
			o.Kind, err = x.interned(text(&w))
		case `"apiVersion"`:
			hasVersion = true
			w.Skip()
		case `"metadata"`:
			managed, err = x.metadata(&w, o)
		default:
			w.Skip()
		}
		if errors.Is(err, errForeign) {
			x.spare = o
			return nil, layout{}, err
		}
		if err != nil {
			return nil, layout{}, fmt.Errorf("cannot read object %s/%s: %w", o.Namespace, o.Name, err)
		}
	}
	if err := w.Err(); err != nil {
		return nil, layout{}, err
	}
	return o, x.layout(raw, o, hasKind, hasVersion, managed), nil
}

// Read returns an object with its JSON and its lifetime.
func Read(raw []byte, keepManagedFields bool) (*Object, error) {
	raw = bytes.TrimSpace(raw) // an answer ends with a newline
	o, layout, err := newIndexer(keepManagedFields).scan(raw)
	if err != nil {
		return nil, err
	}
	o.lifetime, o.JSON = readLifetime(raw), layout.appendTo(nil, raw)
	return o, nil
}

// span is the place of a member of an object, with the comma before it; the zero value is none.
type span struct {
	from, to int
	// first: there is no comma before it.
	first bool
}

func (x *indexer) metadata(w *jq.Walker, o *Object) (managed span, err error) {
	if !w.Enter('{') {
		return span{}, errors.New("metadata is not a JSON object")
	}
	var uid, version, name, namespace []byte // of the walker's text
	open := w.Offset()
	before := open
	for key := w.Member(); key != nil; key = w.Member() {
		switch string(key) {
		case `"name"`:
			name, err = text(w)
		case `"namespace"`:
			namespace, err = text(w)
		case `"uid"`:
			uid, err = text(w)
		case `"resourceVersion"`:
			version, err = text(w)
		case `"managedFields"`:
			w.Skip()
			managed = span{before, w.Offset(), before == open}
		default:
			w.Skip()
		}
		if err != nil {
			return span{}, err
		}
		before = w.Offset()
	}
	if x.part != (Part{}) && !x.part.hasBytes(uid, namespace, name) {
		x.foreign = append(x.foreign[:0], version...)
		return span{}, errForeign
	}
	o.ResourceVersion = string(version)
	o.Namespace, _ = x.interned(namespace, nil)
	o.Key = o.Namespace + "\x00" + string(name)
	o.Name, o.UID = o.Key[len(namespace)+1:], string(uid)
	return managed, nil
}

func KeyOf(namespace, name string) string { return namespace + "\x00" + name }

// text reads a string, which may alias the walker's text; null is an empty one.
func text(w *jq.Walker) ([]byte, error) {
	switch v := w.Value(); {
	case w.Err() != nil:
		return nil, w.Err()
	case v[0] == 'n':
		return nil, nil
	case v[0] != '"':
		return nil, fmt.Errorf("found %s where a string was expected", v)
	case bytes.IndexByte(v, '\\') < 0:
		return v[1 : len(v)-1], nil
	default:
		return jsontext.AppendUnquote(nil, v)
	}
}

// interned deduplicates strings that many objects share.
func (x *indexer) interned(text []byte, err error) (string, error) {
	if kept, ok := x.intern[string(text)]; ok {
		return kept, err
	}
	s := string(text)
	x.intern[s] = s
	return s, err
}

// layout describes the difference between an object's JSON and the received one: without managedFields unless they are kept, and with
// kind and apiVersion if its list left them out.
type layout struct {
	open int
	head []byte
	cut  span
}

func (x *indexer) layout(raw []byte, o *Object, hasKind, hasVersion bool, managed span) layout {
	l := layout{open: bytes.IndexByte(raw, '{') + 1}
	add := func(name, value string) {
		l.head = append(l.head, '"')
		l.head = append(l.head, name...)
		l.head = append(l.head, '"', ':')
		l.head, _ = jsontext.AppendQuote(l.head, value)
		l.head = append(l.head, ',')
	}
	if o.Kind == "" {
		o.Kind = x.fallbackKind
	}
	if !hasKind && x.fallbackKind != "" {
		add("kind", x.fallbackKind)
	}
	if !hasVersion && x.fallbackVersion != "" {
		add("apiVersion", x.fallbackVersion)
	}
	if len(l.head) > 0 && bytes.TrimLeft(raw[l.open:], space)[0] == '}' {
		l.head = l.head[:len(l.head)-1]
	}
	if x.keepManagedFields {
		return l
	}
	l.cut = managed
	if l.cut.first {
		// the comma to remove follows it
		if rest := bytes.TrimLeft(raw[l.cut.to:], space); rest[0] == ',' {
			l.cut.to = len(raw) - len(rest) + 1
		}
	}
	return l
}

// size returns the exact length of the JSON that appendTo appends.
func (l *layout) size(raw []byte) int { return len(raw) + len(l.head) - (l.cut.to - l.cut.from) }

func (l *layout) appendTo(out, raw []byte) []byte {
	out = append(out, raw[:l.open]...)
	out = append(out, l.head...)
	if l.cut.to == 0 {
		return append(out, raw[l.open:]...)
	}
	out = append(out, raw[l.open:l.cut.from]...)
	return append(out, raw[l.cut.to:]...)
}

// space is JSON white space.
const space = " \t\r\n"
