package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shell-operator/shell-operator/internal/kube"
)

var _ http.Handler = (*Server)(nil)

// largestBody is the limit of an API server.
const largestBody = 3 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/openapi/v2" {
		return // a document without schemas, in protobuf: kubectl leaves the items of a List to the server
	}
	q := &request{Request: r, live: s.live, status: http.StatusOK}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	if err != nil {
		Reject(w, apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	s.mu.Lock()
	value, err := s.serve(q, body)
	s.mu.Unlock()
	for _, text := range q.warnings {
		w.Header().Add("Warning", text)
	}
	switch watch, isWatch := value.(*watch); {
	case err != nil:
		Reject(w, err)
	case isWatch:
		watch.serve(w)
	default:
		write(w, q.status, q.represented(value))
	}
}

// Reject answers a request with an error.
func Reject(w http.ResponseWriter, err error) {
	status := statusOf(err)
	write(w, int(status.Code), status)
}

// statusOf is the answer to a request that is rejected: it is invalid, unless the error says more.
func statusOf(err error) metav1.Status {
	failure, known := errors.AsType[*apierrors.StatusError](err)
	if !known {
		failure = apierrors.NewBadRequest(err.Error())
	}
	status := failure.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

func write(w http.ResponseWriter, status int, value any) {
	text, _ := json.Marshal(value) // it came from JSON, or is a type of the library
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// request is a request for objects.
type request struct {
	*http.Request
	kind        Kind
	at          key
	subresource string
	body        []byte
	// status is the HTTP status of an answer that is no error.
	status int
	// emptied are the fields that the client has set to an empty map; errs are invalid fields that validation does not find.
	emptied []string
	errs    field.ErrorList
	// dryRun: the request changes nothing. live: the Server is live.
	dryRun, live bool
	// partial: the client prefers the metadata of objects.
	partial  bool
	warnings []string
}

// serve returns what a request is answered: a value, or a watch. It requires mu.
func (s *Server) serve(q *request, body []byte) (_ any, err error) {
	p := kube.ParsePath(q.URL.Path)
	if p.Resource == "" {
		if value := s.described(q.URL.Path, p.GroupVersion()); value != nil {
			return value, nil
		}
		return nil, q.missing("")
	}
	if q.body, err = fromProtobuf(body); err != nil {
		return nil, response(http.StatusUnsupportedMediaType, err)
	}
	q.partial = onlyMetadata(q.Header.Get("Accept"))
	if q.Method == http.MethodPost {
		if value := review(p.Resource, q.body); value != nil {
			q.status = http.StatusCreated
			return value, nil
		}
	}
	at := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.GroupVersionResource == p.GroupVersionResource })
	if at < 0 {
		return nil, q.missing(p.Resource)
	}
	query := q.URL.Query()
	q.kind, q.at, q.subresource, q.dryRun = s.kinds[at], key{p.GroupResource(), p.Namespace, p.Name}, p.Subresource, query.Get("dryRun") != ""
	if q.kind.Warning != "" {
		q.warnings = append(q.warnings, fmt.Sprintf("299 - %q", q.kind.Warning))
	}
	collection := map[string]func(*request) (any, error){
		http.MethodPost: s.create, http.MethodGet: s.list, http.MethodDelete: s.deleteCollection}
	switch method := collection[q.Method]; {
	case p.Name != "":
		return s.one(q)
	case method == nil, q.Method == http.MethodDelete && q.at.GroupResource == namespaces:
		return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
	case q.Method == http.MethodGet && slices.Contains([]string{"1", "true"}, query.Get("watch")):
		return s.watch(q)
	default:
		return method(q)
	}
}

// missing is the answer to a request for what the server does not serve.
func (q *request) missing(resource string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(q.Method),
		schema.GroupResource{Resource: resource}, "", "", 0, false)
}

// response is an answer without details.
func response(status int, err error) error {
	return apierrors.NewGenericServerResponse(status, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// onlyMetadata reports whether a client accepts the metadata of objects before the objects.
func onlyMetadata(accepted string) bool {
	for clause := range strings.SplitSeq(accepted, ",") {
		switch _, parameters, err := mime.ParseMediaType(clause); {
		case strings.HasPrefix(parameters["as"], "PartialObjectMetadata"):
			return true
		case err == nil && parameters["as"] == "":
			return false
		}
	}
	return false
}

// represented is what the client reads of an object or a list: the metadata if it prefers that.
func (q *request) represented(value any) any {
	tree, isTree := value.(map[string]any)
	if !q.partial || !isTree {
		return value
	}
	of := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": tree["metadata"]}
	if items, isList := tree["items"].([]any); isList {
		list := make([]any, len(items))
		for i := range items {
			list[i] = q.represented(items[i])
		}
		of["kind"], of["items"] = "PartialObjectMetadataList", list
	}
	return of
}

// modified is the answer to a request for an older version of an object.
func (q *request) modified() error {
	return apierrors.NewConflict(q.at.GroupResource, q.at.name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}
