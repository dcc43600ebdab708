package watch

import (
	"context"
	"errors"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
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
	// resync is the period after which the objects are listed again; 0 means never.
	resync time.Duration
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

func (s *stream) newDigester(ctx context.Context, subs func(version uint64) []*subscription) *digester {
	d := &digester{indexer: newIndexer(s.scope.keepManagedFields), ctx: ctx, subs: subs}
	d.part = s.scope.part
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
	serving := func() []*subscription { return f.listed }
	if opts.Continue == "" {
		f.listing()
		serving = f.serving
	}
	return f.page(ctx, opts, f.consumers, serving)
}

// page reads a page of a list for the consumers that serving returns when the response arrives. Concerned are those that receive the
// outcome.
func (s *stream) page(ctx context.Context, opts metav1.ListOptions, concerned, serving func() []*subscription) (*objectList, error) {
	body, err := s.open(ctx, "list", opts, concerned)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	subs := serving()
	list, err := decodeList(body, func() *digester {
		return s.newDigester(ctx, func(uint64) []*subscription { return subs })
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
			f.broke(err)
		}
	}), nil
}

func (s *stream) open(ctx context.Context, verb string, opts metav1.ListOptions, concerned func() []*subscription) (io.ReadCloser, error) {
	opts.LabelSelector, opts.FieldSelector, opts.ShardSelector = s.scope.labels, s.scope.fields, s.scope.part.Selector()
	req := s.client.Get().AbsPath(s.scope.path()).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
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
