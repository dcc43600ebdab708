package stream

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/shell-operator/shell-operator/internal/shard"
)

// Scope selects the objects of one list and one watch. Scopes can be compared.
type Scope struct {
	schema.GroupVersionResource
	Namespace         string // empty: all
	Labels, Fields    string
	KeepManagedFields bool
	// Part has the objects that are delivered. The API server may send more.
	Part Part
	// Resync is the period after which the objects are listed again; 0 means never.
	Resync time.Duration
}

func (s Scope) Path() string {
	path := "/apis/" + s.Group + "/" + s.Version
	if s.Group == "" {
		path = "/api/" + s.Version
	}
	if s.Namespace != "" {
		path += "/namespaces/" + s.Namespace
	}
	return path + "/" + s.Resource
}

// In returns the scope of one namespace, or of all namespaces if it is empty. If objects are divided by namespace, one shard has all
// objects of a namespace.
func (s Scope) In(namespace string) Scope {
	if s.Namespace = namespace; namespace != "" && s.Part.By() == shard.ByNamespace {
		s.Part = Everything
	}
	return s
}

// Part selects the objects of a resource that a shard has. The zero value selects all of them. Parts can be compared.
type Part struct {
	shard.Part
	// Named: objects are Namespaces, which belong to themselves.
	Named bool
}

// Everything is the part of an operator without shards.
var Everything Part

func (p Part) Has(o *Object) bool {
	if p.Named {
		return p.Part.Has(o.UID, o.Name)
	}
	return p.Part.Has(o.UID, o.Namespace)
}

// hasBytes is Has before there is an object.
func (p Part) hasBytes(uid, namespace, name []byte) bool {
	if p.Named {
		return p.HasBytes(uid, name)
	}
	return p.HasBytes(uid, namespace)
}

// OwnNamespaces returns the namespaces of a binding that the part has.
func (p Part) OwnNamespaces(names []string) []string {
	if p.By() != shard.ByNamespace {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !p.Part.Has("", name) })
}

func (s *stream) newDigester(ctx context.Context, subs func(version uint64) []*Subscription) *digester {
	d := &digester{indexer: newIndexer(s.scope.KeepManagedFields), ctx: ctx, subs: subs}
	d.part = s.scope.Part
	return d
}

var _ cache.ListerWatcherWithContext = (*feed)(nil)

// IsWatchListSemanticsUnSupported keeps the reflector from requesting the list as a stream of events, which costs the API server twice
// the CPU time.
func (f *feed) IsWatchListSemanticsUnSupported() bool { return true }

// pageSize is the number of objects in a page of a list. The API server answers a page from its cache, but searches for its beginning
// each time: small pages multiply the time for 100,000 objects. Neither side holds a page in memory.
const pageSize = 10_000

func (f *feed) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	// A consistent read: the cache of another API server may lag behind.
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	serving := func() []*Subscription { return f.listed }
	if opts.Continue == "" {
		f.listing()
		serving = f.serving
	}
	return f.page(ctx, opts, f.consumers, serving)
}

// page reads a page of a list for the consumers that serving returns when the response arrives. Concerned are those that receive the
// outcome.
func (s *stream) page(ctx context.Context, opts metav1.ListOptions, concerned, serving func() []*Subscription) (*objectList, error) {
	body, err := s.open(ctx, "list", opts, concerned)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	subs := serving()
	list, err := decodeList(body, func() *digester {
		return s.newDigester(ctx, func(uint64) []*Subscription { return subs })
	})
	if err != nil {
		s.answered(ctx, concerned(), "list", err)
		return nil, err
	}
	return list, nil
}

func (f *feed) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	f.fruitless.Store(false)
	body, err := f.open(ctx, "watch", opts, f.consumers)
	if err != nil {
		return nil, err
	}
	return newEventStream(body, f.newDigester(ctx, f.reading), func(err error, first bool) {
		if ctx.Err() != nil {
			return
		}
		if f.fruitless.Store(first); !errors.Is(err, io.EOF) {
			f.failed(reasonOf(err)) // the reflector watches or lists again
		}
	}), nil
}

func (s *stream) open(ctx context.Context, verb string, opts metav1.ListOptions, concerned func() []*Subscription) (io.ReadCloser, error) {
	opts.LabelSelector, opts.FieldSelector, opts.ShardSelector = s.scope.Labels, s.scope.Fields, s.scope.Part.Selector()
	req := s.client.Get().AbsPath(s.scope.Path()).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	// Compressing a list takes the API server several times as long as all the rest. Compression of a watch saves nothing on small events,
	// and some proxies delay them.
	req = req.SetHeader("Accept-Encoding", "identity")
	limited, cancel := ctx, context.CancelFunc(func() {})
	if opts.TimeoutSeconds != nil {
		// The server ends the watch before, unless it has died silently. A timeout of the request would not limit a stream.
		limited, cancel = context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds+30)*time.Second)
	}
	body, err := req.Stream(limited)
	s.answered(ctx, concerned(), verb, err)
	if err != nil {
		cancel()
		return nil, err
	}
	return limitedBody{body, cancel}, nil
}

// limitedBody is a response whose context ends when it is closed.
type limitedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
