package stream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// ending is an API server that ends the first watches without an error, before anything has arrived.
type ending struct{ lists, watches, ends int }

func (e *ending) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	}
	if r.URL.Query().Get("watch") == "" {
		e.lists++
		return answer(io.NopCloser(strings.NewReader(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)))
	}
	if r.URL.Query().Get("resourceVersion") != "5" {
		return nil, io.ErrUnexpectedEOF
	}
	if e.watches++; e.watches <= e.ends {
		return answer(io.NopCloser(strings.NewReader("")))
	}
	body, server := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = server.CloseWithError(io.EOF) })
	go func() {
		_, _ = server.Write([]byte(`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",` +
			`"namespace":"n","uid":"u","resourceVersion":"6"}}}`))
	}()
	return answer(body)
}

// arrivals is a consumer that notes when a change arrives.
type arrivals struct {
	eye
	at chan time.Time
}

func (a *arrivals) Change(*Subscription, Digested) { a.at <- time.Now() }

// The API server ends the watches of a kind when its CRD changes. What it would have delivered arrives without the back-off of a failure.
func TestEndedWatch(t *testing.T) {
	for ends, within := range map[int]time.Duration{0: 0, 1: 0, 3: 100 * time.Millisecond, 6: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := &ending{ends: ends}
			client, err := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: server, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			s := newStream(client, Scope{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, ignore)
			consumer := &arrivals{at: make(chan time.Time, 1)}
			sub := &Subscription{Consumer: consumer}
			s.Join(sub)
			ctx, cancel := context.WithCancel(t.Context())
			done, began := make(chan struct{}), time.Now()
			go func() { defer close(done); s.run(ctx) }()
			if took := (<-consumer.at).Sub(began); took > within || server.lists != ends+1 {
				t.Errorf("after %d ends of watches a change arrives after %s, with %d lists", ends, took, server.lists)
			}
			cancel()
			<-done
		})
	}
}
