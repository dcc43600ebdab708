package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	_ http.RoundTripper = (*Server)(nil)
	_ http.Handler      = (*Server)(nil)
)

// answer is what a request is answered: a value, or a watch.
type answer struct {
	status int
	value  any
	watch  *watch
}

// RoundTrip answers a request without a network.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, err
		}
	}
	a, warnings := s.answer(r, body)
	if a.watch != nil {
		ctx, cancel := context.WithCancel(r.Context())
		reader, writer := io.Pipe()
		go func() {
			defer cancel()
			_ = writer.CloseWithError(cmp.Or(a.watch.run(ctx, func(text []byte) error { _, err := writer.Write(text); return err }), io.EOF))
		}()
		return response(r, http.StatusOK, watchBody{reader, cancel}, -1), nil
	}
	answered, err := respond(r, a.status, a.value)
	for _, text := range warnings {
		answered.Header.Add("Warning", text)
	}
	return answered, err
}

// watchBody is the body of the answer to a watch, which ends with it.
type watchBody struct {
	*io.PipeReader
	end context.CancelFunc
}

func (b watchBody) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// largestBody is that of an API server.
const largestBody = 3 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	if err != nil {
		write(w, answer{status: http.StatusRequestEntityTooLarge, value: failure(apierrors.NewRequestEntityTooLargeError(err.Error()))})
		return
	}
	a, warnings := s.answer(r, body)
	for _, text := range warnings {
		w.Header().Add("Warning", text)
	}
	write(w, a)
	if a.watch == nil {
		return
	}
	control := http.NewResponseController(w)
	_ = control.Flush()
	_ = a.watch.run(r.Context(), func(text []byte) error {
		_ = control.SetWriteDeadline(time.Now().Add(s.patience))
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}) // the client has gone, or does not read
}

func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	if a.watch != nil {
		return
	}
	text, err := json.Marshal(a.value)
	if err != nil {
		a.status, text = http.StatusInternalServerError, []byte(err.Error())
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(text)
}

// answer answers a request.
func (s *Server) answer(r *http.Request, body []byte) (answer, []string) {
	q := &request{Request: r, live: s.live, body: body}
	s.mu.Lock()
	a, err := s.serve(q)
	s.mu.Unlock()
	if err == nil && a.watch == nil {
		a.value, err = q.represented(a.value)
	}
	if err != nil {
		return answer{status: int(err.ErrStatus.Code), value: failure(err)}, q.warnings
	}
	a.status = cmp.Or(a.status, http.StatusOK)
	return a, q.warnings
}

func failure(err *apierrors.StatusError) metav1.Status {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

// Reject answers a request with an error.
func Reject(r *http.Request, err *apierrors.StatusError) (*http.Response, error) {
	return respond(r, int(err.ErrStatus.Code), failure(err))
}

func respond(r *http.Request, status int, answer any) (*http.Response, error) {
	text, err := json.Marshal(answer)
	return response(r, status, io.NopCloser(bytes.NewReader(text)), int64(len(text))), err
}

func response(r *http.Request, status int, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: length, Request: r,
	}
}

// request is a request for objects.
type request struct {
	*http.Request
	kind        Kind
	at          key
	subresource string
	body        []byte
	// dryRun: the request changes nothing. live is that of the Server.
	dryRun, live bool
	warnings     []string
}

// Path is what the path of a request names: a version, a collection of its objects, or one of them.
type Path struct {
	schema.GroupVersionResource
	Namespace, Name, Subresource string
}

// ParsePath returns the zero value for a path that names none of these.
func ParsePath(path string) (p Path) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 1 && parts[0] == "api":
		p.Version, parts = parts[1], parts[2:]
	case len(parts) > 2 && parts[0] == "apis":
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		p.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	p.Resource, p.Name, p.Subresource = parts[0], parts[1], parts[2]
	return p
}

// serve requires mu.
func (s *Server) serve(q *request) (answer, *apierrors.StatusError) {
	p := ParsePath(q.URL.Path)
	if p.Resource == "" {
		if value := s.described(q.URL.Path, p.GroupVersion()); value != nil {
			return answer{value: value}, nil
		}
		return answer{}, missing(q.Request, "", "")
	}
	var err error
	if q.body, err = fromProtobuf(q.body); err != nil {
		return answer{}, unsupported(err.Error())
	}
	if q.Method == http.MethodPost {
		if value := review(p.Resource, q.body); value != nil {
			return answer{http.StatusCreated, value, nil}, nil
		}
	}
	at := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.GroupVersionResource == p.GroupVersionResource })
	if at < 0 {
		return answer{}, missing(q.Request, p.Resource, "")
	}
	query := q.URL.Query()
	q.kind, q.at, q.subresource, q.dryRun = s.kinds[at], key{p.GroupResource(), p.Namespace, p.Name}, p.Subresource, query.Get("dryRun") != ""
	collection := map[string]func(*request) (answer, *apierrors.StatusError){
		http.MethodPost: s.create, http.MethodGet: s.list, http.MethodDelete: s.deleteCollection}
	switch method := collection[q.Method]; {
	case p.Name != "":
		return s.one(q)
	case method == nil, q.Method == http.MethodDelete && q.at.GroupResource == namespaces:
		return answer{}, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
	case slices.Contains([]string{"1", "true"}, query.Get("watch")):
		return s.watch(q)
	default:
		return method(q)
	}
}

func missing(r *http.Request, resource, name string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method),
		metav1.Unversioned.WithResource(resource).GroupResource(), name, "", 0, false)
}

// onlyMetadata reports whether the client accepts the metadata of objects before the objects, or nothing that there is.
func (q *request) onlyMetadata() (bool, *apierrors.StatusError) {
	accepted := q.Header.Get("Accept")
	for clause := range strings.SplitSeq(cmp.Or(accepted, "*/*"), ",") {
		media, parameters, err := mime.ParseMediaType(clause)
		if err != nil || !slices.Contains([]string{"application/json", "application/*", "*/*", "application/json;stream=watch"}, media) {
			continue
		}
		switch parameters["as"] {
		case "":
			return false, nil
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			return true, nil
		}
	}
	return false, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, q.Method, q.at.GroupResource, q.at.name,
		"only the following media types are accepted: application/json", 0, true)
}

// represented is what the client reads of an object or a list: the metadata if it prefers that.
func (q *request) represented(value any) (any, *apierrors.StatusError) {
	tree, isTree := value.(map[string]any)
	if !isTree {
		return value, nil
	}
	only, err := q.onlyMetadata()
	if !only || err != nil {
		return value, err
	}
	items, isList := tree["items"].([]any)
	if !isList {
		return partial(tree, ""), nil
	}
	metadata := make([]any, len(items))
	for i, item := range items {
		of, _ := item.(map[string]any)
		metadata[i] = partial(of, "")
	}
	list := partial(tree, "List")
	list["items"] = metadata
	return list, nil
}

func partial(tree map[string]any, suffix string) map[string]any {
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata" + suffix, "metadata": tree["metadata"]}
}

func (q *request) bad(err error) *apierrors.StatusError { return apierrors.NewBadRequest(err.Error()) }

// modified is the answer to a request for an older version of an object.
func (q *request) modified() *apierrors.StatusError {
	return apierrors.NewConflict(q.at.GroupResource, q.at.name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}
