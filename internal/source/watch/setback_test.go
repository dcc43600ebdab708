package watch

import (
	"context"
	"fmt"
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

// restored is an API server whose first watch ends after a minute, and whose versions may be older from then on.
type restored struct {
	end    error
	now    int   // version of lists after the end
	limits []int // versions of the lists with limit=1; the last one repeats
	crd    int   // status of the CRD
	busy   int   // answers to lists with limit=1 that it gives with 503 first
	gone   bool  // the second watch is answered with 410, so that a list comes first

	lists, watches, compared int
}

func (s *restored) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
	}
	list := func(version int) (*http.Response, error) {
		return answer(200, io.NopCloser(strings.NewReader(fmt.Sprintf(
			`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`, version))))
	}
	query := r.URL.Query()
	switch {
	case strings.Contains(r.URL.Path, "customresourcedefinitions"):
		return answer(s.crd, io.NopCloser(strings.NewReader("{}")))
	case query.Get("watch") != "":
		if s.watches++; s.gone && s.watches == 2 {
			return answer(410, io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","reason":"Expired","code":410}`)))
		}
		body, server := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = server.CloseWithError(io.EOF) })
		if s.watches == 1 {
			time.AfterFunc(time.Minute, func() { _ = server.CloseWithError(s.end) })
		}
		return answer(200, body)
	case query.Get("limit") == "1":
		if query.Has("resourceVersion") {
			return nil, io.ErrUnexpectedEOF
		}
		if s.busy > 0 {
			s.busy--
			return answer(503, io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","reason":"ServiceUnavailable","code":503}`)))
		}
		s.compared++
		return list(s.limits[min(s.compared, len(s.limits))-1])
	}
	if s.lists++; s.lists == 1 {
		return list(8)
	}
	return list(s.now)
}

// An API server that was set back is noticed after a connection error, by two lists, and by nothing else.
func TestSetBack(t *testing.T) {
	builtin, custom := schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	for _, test := range []struct {
		name     string
		kind     schema.GroupVersionResource
		server   restored
		compared int
		is       bool
	}{
		{"set back", builtin, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5, 6}}, 2, true},
		{"set back, listed before", builtin, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5, 6}, gone: true}, 2, true},
		{"set back, and busy with its start", builtin, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5, 6}, busy: 3}, 2, true},
		{"one stale answer", builtin, restored{end: io.ErrUnexpectedEOF, now: 8, limits: []int{5, 8}}, 2, false},
		{"the same state", builtin, restored{end: io.ErrUnexpectedEOF, now: 8, limits: []int{8}}, 1, false},
		{"an end without an error", builtin, restored{end: io.EOF, now: 5, limits: []int{5}}, 0, false},
		{"a custom kind", custom, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5}, crd: 200}, 2, true},
		{"an aggregated kind", custom, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5}, crd: 404}, 0, false},
		{"no permission to get its CRD", custom, restored{end: io.ErrUnexpectedEOF, now: 5, limits: []int{5}, crd: 403}, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: &test.server, QPS: -1})
				if err != nil {
					t.Fatal(err)
				}
				s := newStream(client, scope{GroupVersionResource: test.kind})
				var got []error
				s.setBack = func(err error) { got = append(got, err) }
				s.join(&subscription{consumer: &eye{}, stream: s})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); s.run(ctx) }()
				time.Sleep(2 * time.Minute)
				cancel()
				<-done
				if test.server.compared != test.compared || len(got) == 1 != test.is || test.server.watches < 2 {
					t.Errorf("%d lists with limit=1, %d watches, %v", test.server.compared, test.server.watches, got)
				}
			})
		})
	}
}
