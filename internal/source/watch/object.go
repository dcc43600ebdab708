package watch

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a Kubernetes object as the API server sent it: bytes, and the few fields that we index.
// It is immutable once a monitor has seen it.
type object struct {
	// key is "namespace\x00name". Its byte order is the order of snapshots.
	key             string
	namespace, name string
	kind            string
	uid             string
	resourceVersion string
	// json is nil when no binding that shares the stream keeps objects.
	json []byte
	// initialEventsEnd marks the bookmark that ends a streamed list.
	initialEventsEnd bool
}

// The reflector wants a runtime.Object whose metadata it can read. It needs four getters of it.
func (o *object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *object) DeepCopyObject() runtime.Object   { c := *o; return &c }
func (o *object) GetObjectMeta() metav1.Object     { return &objectMeta{object: o} }

type objectMeta struct {
	metav1.Object // nil: whoever calls another method finds out at once
	object        *object
}

func (m *objectMeta) GetNamespace() string       { return m.object.namespace }
func (m *objectMeta) GetName() string            { return m.object.name }
func (m *objectMeta) GetResourceVersion() string { return m.object.resourceVersion }
func (m *objectMeta) GetAnnotations() map[string]string {
	if m.object.initialEventsEnd {
		return map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return nil
}

// objectList is one page of a list.
type objectList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (l *objectList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

// indexer reads the indexed fields out of an object's JSON. It keeps what it can use again for the
// next object, so each decoding goroutine has its own.
type indexer struct {
	dec    *jsontext.Decoder
	src    *bytes.Reader
	intern map[string]string

	keepManagedFields bool
	// fallbackKind and fallbackVersion belong to items of a list, which may not repeat them.
	fallbackKind, fallbackVersion string
}

// lenient: the API server is trusted to send JSON; what it accepted into strings is not ours to judge.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func newIndexer(keepManagedFields bool) *indexer {
	src := bytes.NewReader(nil)
	return &indexer{
		src: src, dec: jsontext.NewDecoder(src, lenient...),
		intern: map[string]string{}, keepManagedFields: keepManagedFields,
	}
}

// index makes an object of raw, which it copies.
func (x *indexer) index(raw []byte) (*object, error) {
	x.src.Reset(raw)
	x.dec.Reset(x.src, lenient...)
	o := &object{}
	var hasVersion bool
	managed := span{}
	if tok, err := x.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil, errors.Join(errors.New("object is not a JSON object"), err)
	}
	for x.dec.PeekKind() == '"' {
		name, err := x.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		switch string(name) {
		case `"kind"`:
			o.kind, err = x.text()
		case `"apiVersion"`:
			hasVersion = true
			err = x.dec.SkipValue()
		case `"metadata"`:
			managed, err = x.metadata(o)
		default:
			err = x.dec.SkipValue()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read object %s/%s: %w", o.namespace, o.name, err)
		}
	}
	if _, err := x.dec.ReadToken(); err != nil {
		return nil, err
	}
	o.json = x.assemble(raw, o, hasVersion, managed)
	return o, nil
}

// span is a range of bytes; the zero value is none.
type span struct{ from, to int64 }

func (x *indexer) metadata(o *object) (managed span, err error) {
	if tok, err := x.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return span{}, errors.Join(errors.New("metadata is not a JSON object"), err)
	}
	var uid, version, name, namespace string
	before := x.dec.InputOffset()
	for x.dec.PeekKind() == '"' {
		key, err := x.dec.ReadValue()
		if err != nil {
			return span{}, err
		}
		switch string(key) {
		case `"name"`:
			name, err = x.text()
		case `"namespace"`:
			namespace, err = x.text()
			namespace = x.interned(namespace)
		case `"uid"`:
			uid, err = x.text()
		case `"resourceVersion"`:
			version, err = x.text()
		case `"annotations"`:
			var v jsontext.Value
			v, err = x.dec.ReadValue()
			o.initialEventsEnd = err == nil && bytes.Contains(v, []byte(`"`+metav1.InitialEventsAnnotationKey+`":"true"`))
		case `"managedFields"`:
			err = x.dec.SkipValue()
			managed = span{before, x.dec.InputOffset()}
		default:
			err = x.dec.SkipValue()
		}
		if err != nil {
			return span{}, err
		}
		before = x.dec.InputOffset()
	}
	o.key = objectKey(namespace, name)
	o.namespace, o.name = namespace, o.key[len(namespace)+1:]
	o.uid, o.resourceVersion = uid, version
	o.kind = x.interned(o.kind)
	_, err = x.dec.ReadToken()
	return managed, err
}

func objectKey(namespace, name string) string { return namespace + "\x00" + name }

func (x *indexer) text() (string, error) {
	v, err := x.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if v.Kind() != '"' {
		return "", fmt.Errorf("found %s where a string was expected", v)
	}
	if !bytes.ContainsRune(v, '\\') {
		return string(v[1 : len(v)-1]), nil
	}
	unquoted, err := jsontext.AppendUnquote(nil, v)
	return string(unquoted), err
}

func (x *indexer) interned(s string) string {
	if kept, ok := x.intern[s]; ok {
		return kept
	}
	x.intern[s] = s
	return s
}

// assemble copies raw into memory of exactly the right size, without managedFields if they are not
// wanted, and with kind and apiVersion if the list that raw comes from held them back.
func (x *indexer) assemble(raw []byte, o *object, hasVersion bool, managed span) []byte {
	var head []byte
	if o.kind == "" && x.fallbackKind != "" {
		o.kind = x.fallbackKind
		head = fmt.Appendf(head, `"kind":%q,`, x.fallbackKind)
	}
	if !hasVersion && x.fallbackVersion != "" {
		head = fmt.Appendf(head, `"apiVersion":%q,`, x.fallbackVersion)
	}
	open := bytes.IndexByte(raw, '{') + 1
	cut := managed
	if x.keepManagedFields {
		cut = span{}
	}
	if cut.to > 0 && raw[cut.from] != ',' {
		// first member of metadata: the comma to remove is the one behind it
		if rest := bytes.TrimLeft(raw[cut.to:], " \t\r\n"); len(rest) > 0 && rest[0] == ',' {
			cut.to = int64(len(raw)-len(rest)) + 1
		}
	}
	out := make([]byte, 0, len(raw)+len(head)-int(cut.to-cut.from))
	out = append(out, raw[:open]...)
	out = append(out, head...)
	if cut.to == 0 {
		return append(out, raw[open:]...)
	}
	out = append(out, raw[open:cut.from]...)
	return append(out, raw[cut.to:]...)
}
