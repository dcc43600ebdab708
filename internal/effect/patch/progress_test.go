package patch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// A hundred thousand failures make an error that can be read and logged.
func TestManyFailures(t *testing.T) {
	var f Progress
	var working sync.WaitGroup
	for worker := range 4 {
		working.Go(func() {
			for i := range 25_000 {
				f.add(&effect.Patch{Operation: effect.Create, Kind: "Pod", Name: "a", Number: 4*i + worker + 1}, errors.New(strings.Repeat("x", 100)))
			}
		})
	}
	working.Wait()
	text := f.err().Error()
	if !strings.HasSuffix(text, "\nand 99950 more operations failed") || len(text) > 10_000 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestFailuresInOrder(t *testing.T) {
	var f Progress
	for _, number := range []int{3, 1, 2} {
		f.add(&effect.Patch{Operation: effect.Delete, Kind: "Pod", Namespace: "n", Name: fmt.Sprint("p", number), Number: number},
			errors.New("no"))
	}
	f.add(&effect.Patch{}, nil)
	want := "Delete of Pod/n/p1 (document 1): no\nDelete of Pod/n/p2 (document 2): no\nDelete of Pod/n/p3 (document 3): no"
	if got := f.err().Error(); got != want {
		t.Errorf("got %s", got)
	}
	if err := (&Progress{}).err(); err != nil {
		t.Errorf("no failures are %v", err)
	}
}

// A run that is ended, by a shutdown or the loss of the Lease, ends in time: of a hundred thousand operations no more are begun.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	var sent atomic.Int64
	var ctx context.Context
	var end func()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // the discovery
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "v1",
				"resources": [{"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["get", "list", "create"]}]}`)
			return
		}
		sent.Add(1)
		end()
	}))
	defer server.Close()
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []effect.Operation{effect.DeleteInBackground, effect.MergePatch, effect.Sync} {
		ctx, end = context.WithCancel(t.Context())
		patches := make([]effect.Patch, 100_000)
		for i := range patches {
			patches[i] = effect.Patch{Operation: operation, APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: fmt.Sprint("p", i),
				Body: []byte("{}")}
			if operation == effect.Sync {
				patches[i].Set = &effect.ObjectSet{}
			}
		}
		sent.Store(0)
		a := New(Options{Client: client, Resolver: kube.NewResolver(client), Sync: func(context.Context, *slog.Logger, string,
			*effect.ObjectSet, func(string, ...kube.Rule)) error {
			sent.Add(1)
			end()
			return ctx.Err()
		}})
		done, err := a.Apply(ctx, slog.New(slog.DiscardHandler), Run{}, patches)
		if err == nil || sent.Load() == 0 || sent.Load() > 1000 || len(done.failed) < 99_000 {
			t.Errorf("%v: %d operations were begun, %d failed: %.200v", operation, sent.Load(), len(done.failed), err)
		}
	}
}
