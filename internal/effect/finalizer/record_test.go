package finalizer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// server is an API server with the record, and as many objects with each finalizer as finalized says.
type server struct {
	mu        sync.Mutex
	version   int
	finalized int
	record    []byte
	changed   chan struct{}
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}
	}
	text := func(code int, text []byte) (*http.Response, error) {
		return answer(code, io.NopCloser(bytes.NewReader(text))), nil
	}
	fails := func(code int, reason string) (*http.Response, error) {
		return text(code, fmt.Appendf(nil, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code))
	}
	switch ofRecord := strings.HasSuffix(req.URL.Path, "/"+RecordName); {
	case req.URL.Query().Get("watch") == "true":
		out, in := io.Pipe()
		go s.stream(req.Context(), in)
		return answer(200, out), nil
	case req.Method == http.MethodGet && !ofRecord:
		object := `{"metadata": {"name": "a", "namespace": "ns", "finalizers": ["example.com/f"]}},`
		return text(200, fmt.Appendf(nil, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [%s]}`,
			strings.TrimSuffix(strings.Repeat(object, s.finalized), ",")))
	case s.record == nil && req.Method != http.MethodPost:
		return fails(404, "NotFound")
	case req.Method == http.MethodPost:
		if s.record != nil {
			return fails(409, "AlreadyExists")
		}
		s.set(body)
	case req.Method == http.MethodPatch:
		var from configMap
		if json.Unmarshal(body, &from) != nil || from.ResourceVersion != strconv.Itoa(s.version) {
			return fails(409, "Conflict")
		}
		merged, err := jsonpatch.MergePatch(s.record, body)
		if err != nil {
			return fails(400, "BadRequest")
		}
		s.set(merged)
	case req.Method == http.MethodDelete:
		s.set(nil)
		return text(200, []byte(`{"kind": "Status", "apiVersion": "v1", "status": "Success"}`))
	}
	return text(200, s.record)
}

// set is called with the lock.
func (s *server) set(text []byte) {
	s.version++
	if text != nil {
		text, _ = jsonpatch.MergePatch(text, fmt.Appendf(nil, `{"metadata": {"resourceVersion": "%d"}}`, s.version))
	}
	s.record = text
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) stream(ctx context.Context, to *io.PipeWriter) {
	defer to.Close()
	for {
		s.mu.Lock()
		now, changed := s.record, s.changed
		s.mu.Unlock()
		if now != nil {
			if _, err := fmt.Fprintf(to, `{"type": "MODIFIED", "object": %s}`, now); err != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) options(t *testing.T) Options {
	client, err := kube.NewClient(&rest.Config{Host: "http://server", Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Client: client, Namespace: func() (string, error) { return "ns", nil }, Instance: "ns.operator",
		Log: slog.New(slog.DiscardHandler)}
}

func (s *server) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.record, []byte(text))
}

var configMaps = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
	Namespaced: true}

// An orphan is logged when it is found, and when it changes: a search follows each change of the hooks.
func TestOrphansAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{}), finalized: 2}
		o := s.options(t)
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		pods := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
		h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}}
		if err := New(o).Claim(t.Context(), h, 0, pods); err != nil {
			t.Fatal(err)
		}
		r := New(o)
		for _, step := range []struct{ objects, logged int }{{2, 1}, {2, 1}, {1, 2}, {1, 2}, {0, 2}, {1, 3}} {
			s.finalized = step.objects
			if err := r.CheckOrphans(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "A finalizer has no hook any more"); n != step.logged || !s.has("example.com/f") {
				t.Fatalf("with %d objects it is logged %d times, want %d", step.objects, n, step.logged)
			}
		}
	})
}

// An operator with finalizers reports another one that claims later with its instance name, and not itself: neither an earlier process, nor
// a replica with its Lease, nor another installation. A search, an object and an entry are as without it.
func TestAnotherOperatorClaims(t *testing.T) {
	for name, c := range map[string]struct{ instance, second, want string }{
		"a process":            {"ns.operator", "process b/1", "process b/1"},
		"a replica":            {"ns.operator", "process a/1", ""},
		"another installation": {"ns.other", "process b/1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{changed: make(chan struct{}), finalized: 1}
				start := func(instance, operator, finalizer string) *Record {
					o := s.options(t)
					o.Instance, o.Operator = instance, operator
					r := New(o)
					h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: finalizer}}}
					ctx, end := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() { r.Run(ctx); close(done) }()
					t.Cleanup(func() { end(); <-done })
					if err := r.Claim(ctx, h, 0, configMaps); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					return r
				}
				start("ns.operator", "process earlier/1", "example.com/a")
				first := start("ns.operator", "process a/1", "example.com/a")
				if other := first.Other(); other != "" {
					t.Errorf("an operator that has claimed last reports %q", other)
				}
				second := start(c.instance, c.second, "example.com/b")
				if first.Other() != c.want || second.Other() != "" {
					t.Errorf("the first reports %q, the second %q", first.Other(), second.Other())
				}
				if by, err := first.Claimer(t.Context(), c.instance); by != c.second || err != nil {
					t.Errorf("%q claimed last, %v", by, err)
				}
			})
		})
	}
}
