package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// apiServer is a model of an API server with ConfigMaps in one namespace, which lists, watches and patches their finalizers. It answers
// after random delays, and rejects half of the requests in an outage.
type apiServer struct {
	mu      sync.Mutex
	random  *rand.Rand
	changed chan struct{} // closed and replaced by each change
	objects map[string]*apiObject
	// history are all versions; the version of the n-th is n+1.
	history []apiRevision
	// outage rejects half of the requests, blind the lists without a selector.
	outage, blind bool
	// released is called when an object has lost the finalizer.
	released func(name, uid string)
}

type apiObject struct {
	name, uid  string
	version    int
	selected   bool
	deleted    bool
	finalizers []string
}

// apiRevision is a state of an object, and whether it was selected before.
type apiRevision struct {
	text                          string
	before, after, created, ended bool
}

func (o *apiObject) json() string {
	label, deletion := "", ""
	if o.selected {
		label = `,"labels":{"app":"x"}`
	}
	if o.deleted {
		deletion = `,"deletionTimestamp":"2026-01-02T03:04:05Z"`
	}
	finalizers, _ := json.Marshal(o.finalizers)
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"n","uid":%q,"resourceVersion":"%d",`+
		`"finalizers":%s%s%s}}`,
		o.name, o.uid, o.version, finalizers, label, deletion)
}

// commit makes a version of an object. It requires mu.
func (s *apiServer) commit(o *apiObject, before, created bool) {
	o.version = len(s.history) + 1
	ended := o.deleted && len(o.finalizers) == 0
	if s.objects[o.name] = o; ended {
		delete(s.objects, o.name)
	}
	s.history = append(s.history, apiRevision{text: o.json(), before: before, after: o.selected && !ended, created: created, ended: ended})
	close(s.changed)
	s.changed = make(chan struct{})
}

// write is a change by a user.
func (s *apiServer) write(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name]
	if kind == "create" && o == nil {
		s.commit(&apiObject{name: name, uid: fmt.Sprintf("%s#%d", name, len(s.history)), selected: true}, false, true)
	}
	if o == nil {
		return
	}
	before := o.selected
	switch kind {
	case "leave":
		o.selected = false
	case "join":
		o.selected = true
	case "delete":
		o.deleted = true
	}
	if kind != "create" {
		s.commit(o, before, false)
	}
}

func (s *apiServer) setOutage(outage bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = outage
}

func (s *apiServer) setBlind(blind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind = blind
}

// terminating are the objects that are being deleted and have the finalizer.
func (s *apiServer) terminating() (all []apiObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.deleted && slices.Contains(o.finalizers, modelFinalizer) {
			all = append(all, *o)
		}
	}
	return all
}

// delay lets a request take some time, and reports whether it is rejected.
func (s *apiServer) delay(ctx context.Context) (rejected bool) {
	s.mu.Lock()
	d, rejected := time.Duration(s.random.IntN(50))*time.Millisecond, s.outage && s.random.IntN(2) == 0
	s.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return rejected
}

func (s *apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	if req.URL.Path == "/api/v1" {
		return apiAnswer(200, `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch","patch"]}]}`), nil
	}
	if s.delay(req.Context()) {
		return apiAnswer(500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"outage"}`), nil
	}
	selected := q.Get("labelSelector") != ""
	name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	switch {
	case q.Get("watch") != "":
		from, _ := strconv.Atoi(q.Get("resourceVersion"))
		reader, writer := io.Pipe()
		context.AfterFunc(req.Context(), func() { reader.Close() })
		go s.watch(req.Context(), from, selected, writer)
		answer := apiAnswer(200, "")
		answer.Body = reader
		return answer, nil
	case req.Method == http.MethodPatch:
		defer s.delay(req.Context())
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		return s.patch(name, body), nil
	}
	defer s.delay(req.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind && !selected {
		return apiAnswer(500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"blind"}`), nil
	}
	if name != "configmaps" {
		if o := s.objects[name]; o != nil {
			return apiAnswer(200, o.json()), nil
		}
		return apiNotFound(), nil
	}
	var items []string
	for _, o := range s.objects {
		if o.selected || !selected {
			items = append(items, o.json())
		}
	}
	return apiAnswer(200, fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		len(s.history), strings.Join(items, ","))), nil
}

// patch applies a patch of the finalizers, with tests of uid and finalizers.
func (s *apiServer) patch(name string, body []byte) *http.Response {
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return apiAnswer(400, err.Error())
	}
	lost := ""
	defer func() {
		if lost != "" {
			s.released(name, lost)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name]
	if o == nil {
		return apiNotFound()
	}
	for _, p := range operations {
		var list []string
		_ = json.Unmarshal(p.Value, &list)
		switch {
		case p.Op == "test" && p.Path == "/metadata/uid" && string(p.Value) == strconv.Quote(o.uid):
		case p.Op == "test" && p.Path == "/metadata/finalizers" && slices.Equal(list, o.finalizers):
		case p.Op == "test":
			return apiAnswer(422, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":422,"reason":"Invalid","message":"the test failed"}`)
		case o.deleted && len(list) > len(o.finalizers):
			return apiAnswer(422,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","code":422,"reason":"Invalid","message":"it is being deleted"}`)
		default:
			if slices.Contains(o.finalizers, modelFinalizer) && !slices.Contains(list, modelFinalizer) {
				lost = o.uid
			}
			o.finalizers = list
		}
	}
	s.commit(o, o.selected, false)
	return apiAnswer(200, o.json())
}

func (s *apiServer) watch(ctx context.Context, from int, selected bool, body *io.PipeWriter) {
	defer body.Close()
	for at := from; ; {
		s.mu.Lock()
		if at == len(s.history) {
			changed := s.changed
			s.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		r := s.history[at]
		s.mu.Unlock()
		at++
		before, after := r.before || !selected && !r.created, r.after || !selected && !r.ended
		kind := "MODIFIED"
		switch {
		case !before && !after:
			continue
		case !before:
			kind = "ADDED"
		case !after:
			kind = "DELETED"
		}
		s.delay(ctx)
		if _, err := fmt.Fprintf(body, `{"type":%q,"object":%s}`+"\n", kind, r.text); err != nil {
			return
		}
	}
}

func apiAnswer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body))}
}

func apiNotFound() *http.Response {
	return apiAnswer(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound"}`)
}
