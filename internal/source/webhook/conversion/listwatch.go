package conversion

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// listWatch lists and watches one CRD. Being asked for by name it needs no permission for others.
type listWatch struct {
	client rest.Interface
	name   string
	report func(error)
}

var _ cache.ListerWatcherWithContext = (*listWatch)(nil)

// IsWatchListSemanticsUnSupported tells the reflector that a stream is not worth it for one object.
func (l *listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (l *listWatch) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	raw, err := kube.Send(ctx, l.request(opts))
	l.answered(ctx, err)
	if err != nil {
		return nil, err
	}
	list, err := readCRDList(raw)
	if err != nil {
		l.report(err)
		return nil, err
	}
	return list, nil
}

func (l *listWatch) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	req := l.request(opts)
	if opts.TimeoutSeconds != nil {
		// The server ends the watch; should it have died silently, we do.
		req = req.Timeout(time.Duration(*opts.TimeoutSeconds+30) * time.Second)
	}
	body, err := req.Stream(ctx)
	l.answered(ctx, err)
	if err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(body, lenient)
	return kube.Stream(body, func() (watch.Event, error) { return readEvent(dec) }), nil
}

// List and Watch complete cache.ListerWatcher; the reflector calls the variants with a context.
func (l *listWatch) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

func (l *listWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

func (l *listWatch) request(opts metav1.ListOptions) *rest.Request {
	opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", l.name).String()
	return l.client.Get().AbsPath(crdPath).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// answered reports an answer, unless we have broken off the request ourselves.
func (l *listWatch) answered(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.report(err)
	}
}
