package replica

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/kube"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is an API server in memory, of which other clients read and change Leases.
type server struct{ *memory.Server }

func newServer() *server { return &server{memory.New(memory.Options{Kinds: memory.BuiltIns()})} }

// lease returns a Lease, which is empty if there is none.
func (s *server) lease(name string) *coordinationv1.Lease {
	kind, _ := s.Resolve("coordination.k8s.io/v1", "Lease")
	o, _ := s.Get(memory.Object{Kind: kind, Namespace: "n", Name: name})
	lease := &coordinationv1.Lease{}
	_ = json.Unmarshal(o.JSON, lease)
	return lease
}

// change changes a Lease as another client.
func (s *server) change(t *testing.T, name string, how func(*coordinationv1.Lease)) {
	t.Helper()
	lease := s.lease(name)
	how(lease)
	text, _ := json.Marshal(lease) // it came from JSON
	if _, err := s.Replace(text); err != nil {
		t.Fatal(err)
	}
}

// line is the way of one replica to the server. Its requests take some time, and fail when it is cut.
type line struct {
	*server
	delay time.Duration
	// broken is closed when the line is cut.
	broken chan struct{}
	// blind refuses watches, unlisted lists.
	blind    bool
	unlisted atomic.Bool
	// creations counts the attempts to create a Lease.
	creations atomic.Int64
}

var errCut = errors.New("the line is cut")

func newLine(s *server) *line {
	return &line{server: s, delay: 5 * time.Millisecond, broken: make(chan struct{})}
}

func (l *line) client(t *testing.T) rest.Interface {
	client, err := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: l, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// travel is the way there, or back. A request on a line that is cut hangs until its context ends, as in life.
func (l *line) travel(ctx context.Context) error {
	select {
	case <-l.broken:
		<-ctx.Done()
		return errCut
	default:
	}
	select {
	case <-time.After(l.delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := l.travel(r.Context()); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Method == http.MethodPost {
		l.creations.Add(1)
	}
	watches, all := r.URL.Query().Has("watch"), r.Method == http.MethodGet && path.Base(r.URL.Path) == leases.Resource
	w := httptest.NewRecorder()
	switch {
	case watches && l.blind, all && !watches && l.unlisted.Load():
		memory.Reject(w, apierrors.NewForbidden(leases, "", errors.New("no")))
	case watches:
		return l.stream(r), nil
	default:
		l.ServeHTTP(w, r)
	}
	if err := l.travel(r.Context()); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// stream returns the response to a watch, each part of which travels.
func (l *line) stream(r *http.Request) *http.Response {
	body, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(r.Context().Err()) })
	go func() {
		l.ServeHTTP(&part{l, r.Context(), to}, r)
		_ = to.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}
}

// part sends the parts of a response.
type part struct {
	*line
	ctx context.Context
	to  io.Writer
}

func (p *part) Header() http.Header { return http.Header{} }
func (p *part) WriteHeader(int)     {}
func (p *part) Flush()              {}

func (p *part) Write(text []byte) (int, error) {
	if err := p.travel(p.ctx); err != nil {
		return 0, err
	}
	return p.to.Write(text)
}
