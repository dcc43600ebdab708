package memory

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shell-operator/shell-operator/internal/kube"
)

var _ http.Handler = (*Server)(nil)

// largestBody is that of an API server.
const largestBody = 3 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{Request: r, live: s.live, status: http.StatusOK}
	value, failure := s.answer(w, q)
	for _, text := range q.warnings {
		w.Header().Add("Warning", text)
	}
	if watch, isWatch := value.(*watch); isWatch && failure == nil {
		control := http.NewResponseController(w)
		w.Header().Set("Content-Type", "application/json")
		_ = control.Flush()
		_ = watch.run(r.Context(), func(text []byte) error {
			_ = control.SetWriteDeadline(time.Now().Add(s.patience))
			if _, err := w.Write(text); err != nil {
				return err
			}
			err := control.Flush()
			_ = control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, although nothing is written
			return err
		}) // the client has gone, or does not read
		return
	}
	if failure != nil {
		Reject(w, failure)
		return
	}
	write(w, q.status, value)
}

// Reject answers a request with an error.
func Reject(w http.ResponseWriter, err *apierrors.StatusError) {
	write(w, int(err.ErrStatus.Code), statusOf(err))
}

func statusOf(err *apierrors.StatusError) metav1.Status {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

func write(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// answer returns what a request is answered: a value, or a watch.
func (s *Server) answer(w http.ResponseWriter, q *request) (value any, failure *apierrors.StatusError) {
	var err error
	if q.body, err = io.ReadAll(http.MaxBytesReader(w, q.Body, largestBody)); err != nil {
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	s.mu.Lock()
	value, failure = s.serve(q)
	s.mu.Unlock()
	if failure != nil {
		return nil, failure
	}
	return q.represented(value)
}

// request is a request for objects.
type request struct {
	*http.Request
	kind        Kind
	at          key
	subresource string
	body        []byte
	// status is that of an answer that is no error.
	status int
	// emptied are the fields that the client has set to an empty map; errs are invalid fields that validation does not find.
	emptied []string
	errs    field.ErrorList
	// dryRun: the request changes nothing. live is that of the Server.
	dryRun, live bool
	warnings     []string
}

// serve requires mu.
func (s *Server) serve(q *request) (any, *apierrors.StatusError) {
	p := kube.ParsePath(q.URL.Path)
	if p.Resource == "" {
		if value := s.described(q.URL.Path, p.GroupVersion()); value != nil {
			return value, nil
		}
		return nil, missing(q.Request, "", "")
	}
	var err error
	if q.body, err = fromProtobuf(q.body); err != nil {
		return nil, unsupported(err.Error())
	}
	if q.Method == http.MethodPost {
		if value := review(p.Resource, q.body); value != nil {
			q.status = http.StatusCreated
			return value, nil
		}
	}
	at := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.GroupVersionResource == p.GroupVersionResource })
	if at < 0 {
		return nil, missing(q.Request, p.Resource, "")
	}
	query := q.URL.Query()
	q.kind, q.at, q.subresource, q.dryRun = s.kinds[at], key{p.GroupResource(), p.Namespace, p.Name}, p.Subresource, query.Get("dryRun") != ""
	collection := map[string]func(*request) (any, *apierrors.StatusError){
		http.MethodPost: s.create, http.MethodGet: s.list, http.MethodDelete: s.deleteCollection}
	switch method := collection[q.Method]; {
	case p.Name != "":
		return s.one(q)
	case method == nil, q.Method == http.MethodDelete && q.at.GroupResource == namespaces:
		return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
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
	list := partial(tree, "List")
	list["items"] = items
	for i, item := range items { // they are of this answer only
		of, _ := item.(map[string]any)
		items[i] = partial(of, "")
	}
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
