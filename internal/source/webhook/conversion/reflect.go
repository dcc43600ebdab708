package conversion

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// watchCRD tells f what there is of its CRD until ctx ends.
func watchCRD(ctx context.Context, f *follower) {
	lw := &listWatch{client: f.opts.Client, name: f.name, report: f.report}
	r := cache.NewReflectorWithOptions(lw, nil, teller{f}, cache.ReflectorOptions{
		Name: f.name, TypeDescription: "CRD", Clock: kube.Clock(ctx),
		Backoff: &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.7, Jitter: 0.3, Steps: 12, Cap: 15 * time.Second},
	})
	r.RunWithContext(klog.NewContext(ctx, logr.Discard())) // report says it better
}

// teller is the store that the reflector fills: it tells the follower.
type teller struct{ *follower }

var _ cache.ReflectorStore = teller{}

func (t teller) Resync() error     { return nil }
func (t teller) Add(obj any) error { return t.Update(obj) }

func (t teller) Update(obj any) error {
	if c, ok := obj.(*crd); ok {
		t.changed(c)
	}
	return nil
}

func (t teller) Delete(any) error {
	t.found(nil)
	return nil
}

func (t teller) Replace(list []any, _ string) error {
	var c *crd
	for _, obj := range list {
		c, _ = obj.(*crd)
	}
	t.found(c)
	return nil
}
