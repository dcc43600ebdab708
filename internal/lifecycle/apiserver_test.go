package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
)

// apiServer is an API server with ConfigMaps in one namespace. It answers after random delays, and rejects half of the requests in an
// outage.
type apiServer struct {
	memory *memory.Server

	mu     sync.Mutex
	random *rand.Rand
	// outage rejects half of the requests, blind the lists without a selector.
	outage, blind bool
	// late, if set, holds the events of x until it is closed.
	late chan struct{}
	// changes is the number of changes by users.
	changes int
	// released is called when an object has lost the finalizer.
	released func(name, uid string)
}

// apiObject is what the model reads of an object.
type apiObject struct {
	Metadata struct {
		Name, UID, DeletionTimestamp string
		Labels                       map[string]string
		Finalizers                   []string
	}
}

func (o *apiObject) selected() bool  { return o.Metadata.Labels["app"] == "x" }
func (o *apiObject) deleted() bool   { return o.Metadata.DeletionTimestamp != "" }
func (o *apiObject) protected() bool { return slices.Contains(o.Metadata.Finalizers, modelFinalizer) }

// objects are all, by name.
func (s *apiServer) objects() map[string]apiObject {
	all := map[string]apiObject{}
	for _, stored := range s.memory.Objects() {
		var o apiObject
		if full, ok := s.memory.Get(stored); ok {
			if err := json.Unmarshal(full.JSON, &o); err != nil {
				panic(err)
			}
			all[stored.Name] = o
		}
	}
	return all
}

// write is a change by a user. What is not there, or there already, rejects it.
func (s *apiServer) write(kind, name string) {
	const configMaps = "http://api.example.com/api/v1/namespaces/n/configmaps"
	method, path, body := http.MethodPatch, configMaps+"/"+name, ""
	switch kind {
	case "create":
		method, path = http.MethodPost, configMaps
		body = fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"labels":{"app":"x"}}}`, name)
	case "change":
		s.changes++
		body = fmt.Sprintf(`{"data":{"changes":"%d"}}`, s.changes)
	case "leave":
		body = `{"metadata":{"labels":{"app":null}}}`
	case "join":
		body = `{"metadata":{"labels":{"app":"x"}}}`
	case "delete":
		method = http.MethodDelete
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if req.Header.Set("Content-Type", "application/json"); method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	s.memory.ServeHTTP(httptest.NewRecorder(), req)
}

func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// delay lets a request take some time, and reports whether it is rejected.
func (s *apiServer) delay(ctx context.Context) (rejected bool) {
	var d time.Duration
	s.set(func() {
		d, rejected = time.Duration(s.random.IntN(50))*time.Millisecond, s.outage && s.random.IntN(2) == 0
	})
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return rejected
}

func (s *apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	if req.URL.Path == "/api/v1" {
		s.memory.ServeHTTP(answer, req)
		return answer.Result(), nil
	}
	rejected, q := s.delay(req.Context()), req.URL.Query()
	watches := q.Get("watch") != ""
	s.set(func() {
		rejected = rejected || s.blind && req.Method == http.MethodGet && !watches && q.Get("labelSelector") == ""
	})
	name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	before := s.objects()[name]
	switch {
	case rejected:
		memory.Reject(answer, apierrors.NewInternalError(io.ErrUnexpectedEOF))
		return answer.Result(), nil
	case watches:
		return s.watch(req), nil
	}
	s.memory.ServeHTTP(answer, req)
	if req.Method == http.MethodPatch && answer.Code == http.StatusOK && before.protected() {
		if after := s.objects()[name]; after.Metadata.UID != before.Metadata.UID || !after.protected() {
			s.released(name, before.Metadata.UID)
		}
	}
	s.delay(req.Context())
	return answer.Result(), nil
}

func (s *apiServer) watch(req *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(req.Context())
	reader, writer := io.Pipe()
	w := &watchWriter{writer, http.Header{}, make(chan int, 1)}
	go func() {
		s.memory.ServeHTTP(w, req.WithContext(ctx))
		_ = writer.Close()
	}()
	return &http.Response{StatusCode: <-w.status, Header: w.header, Body: &slowBody{reader, cancel, func() {
		s.delay(ctx)
		var late chan struct{}
		s.set(func() { late = s.late })
		if late != nil && strings.Contains(req.URL.Query().Get("fieldSelector"), "name=x") {
			select {
			case <-late:
			case <-ctx.Done():
			}
		}
	}}}
}

// watchWriter writes a watch to a pipe. It reports the status when that is known.
type watchWriter struct {
	*io.PipeWriter
	header http.Header
	status chan int
}

func (w *watchWriter) Header() http.Header { return w.header }
func (w *watchWriter) Flush()              { w.WriteHeader(http.StatusOK) }
func (w *watchWriter) WriteHeader(status int) {
	select {
	case w.status <- status:
	default:
	}
}

// slowBody is a watch whose events arrive late.
type slowBody struct {
	*io.PipeReader
	cancel context.CancelFunc
	delay  func()
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	b.delay()
	return n, err
}

func (b *slowBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
