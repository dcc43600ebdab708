package watch

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// scope is what one list and one watch cover.
type scope struct {
	schema.GroupVersionResource
	namespace         string // empty: all
	labels, fields    string
	keepManagedFields bool
	// part is what arrives. The API server may send more.
	part part
}

func (s scope) path() string {
	path := "/apis/" + s.Group + "/" + s.Version
	if s.Group == "" {
		path = "/api/" + s.Version
	}
	if s.namespace != "" {
		path += "/namespaces/" + s.namespace
	}
	return path + "/" + s.Resource
}

// listWatch lists and watches a scope as bytes.
type listWatch struct {
	client rest.Interface
	scope  scope
	// report receives the outcome of each request; nil is success.
	report func(verb string, err error)
	// broke receives why a watch failed after it had begun.
	broke func(error)
	ctx   context.Context
	// listing begins a list, serving returns its consumers when the response arrives, reading returns those of a change.
	listing func()
	serving func() []*subscription
	reading func(version uint64) []*subscription
	// listed are the consumers of the list that is being made.
	listed []*subscription
	meter  Meter
}

func (l *listWatch) newDigester(subs func(uint64) []*subscription) *digester {
	d := &digester{indexer: newIndexer(l.scope.keepManagedFields), ctx: l.ctx, subs: subs, meter: l.meter}
	d.part = l.scope.part
	return d
}

var _ cache.ListerWatcherWithContext = (*listWatch)(nil)

// IsWatchListSemanticsUnSupported keeps the reflector from requesting the list as a stream of events, which costs the API server twice
// the CPU time.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// pageSize is the number of objects in a page of a list. The API server answers a page from its cache, but searches for its beginning
// each time: small pages multiply the time for 100,000 objects. Neither side holds a page in memory.
const pageSize = 10_000

func (l *listWatch) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	// A consistent read: the cache of another API server may lag behind.
	opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
	if opts.Continue != "" {
		return l.page(ctx, opts, func() []*subscription { return l.listed })
	}
	l.listing()
	return l.page(ctx, opts, func() []*subscription {
		l.listed = l.serving()
		return l.listed
	})
}

// page reads a page of a list for the consumers that serving returns when the response arrives.
func (l *listWatch) page(ctx context.Context, opts metav1.ListOptions, serving func() []*subscription) (*objectList, error) {
	body, err := l.open(ctx, "list", opts)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	subs := serving()
	list, err := decodeList(body, func() *digester {
		return l.newDigester(func(uint64) []*subscription { return subs })
	})
	if err != nil {
		l.answered(ctx, "list", err)
		return nil, err
	}
	return list, nil
}

func (l *listWatch) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	body, err := l.open(ctx, "watch", opts)
	if err != nil {
		return nil, err
	}
	return newEventStream(body, l.newDigester(l.reading), func(err error) {
		if ctx.Err() == nil {
			l.broke(err)
		}
	}), nil
}

// List and Watch complete cache.ListerWatcher; the reflector calls the variants with a context.
func (l *listWatch) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

func (l *listWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

func (l *listWatch) open(ctx context.Context, verb string, opts metav1.ListOptions) (io.ReadCloser, error) {
	opts.LabelSelector, opts.FieldSelector, opts.ShardSelector = l.scope.labels, l.scope.fields, l.scope.part.Selector()
	req := l.client.Get().AbsPath(l.scope.path()).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	// Compressing a list takes the API server several times as long as all the rest. Compression of a watch saves nothing on small events,
	// and some proxies delay them.
	req = req.SetHeader("Accept-Encoding", "identity")
	limited, cancel := ctx, context.CancelFunc(func() {})
	if opts.TimeoutSeconds != nil {
		// The server ends the watch before, unless it has died silently. A timeout of the request would not limit a stream.
		limited, cancel = context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds+30)*time.Second)
	}
	body, err := req.Stream(limited)
	l.answered(ctx, verb, err)
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

// answered reports the outcome of a request that was not cancelled.
func (l *listWatch) answered(ctx context.Context, verb string, err error) {
	if ctx.Err() == nil {
		l.report(verb, err)
	}
}
