package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var _ http.RoundTripper = (*Server)(nil)

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
	s.mu.Lock()
	answer, err := s.serve(r, body)
	s.mu.Unlock()
	if err != nil {
		return Reject(r, err)
	}
	if made, ok := answer.(created); ok {
		return respond(r, http.StatusCreated, made.object)
	}
	return respond(r, http.StatusOK, answer)
}

// Reject answers a request with an error.
func Reject(r *http.Request, err *apierrors.StatusError) (*http.Response, error) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return respond(r, int(status.Code), status)
}

func respond(r *http.Request, status int, answer any) (*http.Response, error) {
	text, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)), Request: r,
	}, err
}

// created is the answer to a request that has created an object.
type created struct{ object any }

// request is a request for objects.
type request struct {
	*http.Request
	kind        Kind
	at          key
	subresource string
	body        []byte
	// dryRun: the request changes nothing.
	dryRun bool
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
func (s *Server) serve(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	p := ParsePath(r.URL.Path)
	if p.Resource == "" {
		if strings.Trim(r.URL.Path, "/") == "apis" {
			return s.groups(), nil
		}
		if list := s.resources(p.GroupVersion()); len(list.APIResources) > 0 {
			return list, nil
		}
		return nil, missing(r, "", "")
	}
	at := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.GroupVersionResource == p.GroupVersionResource })
	if at < 0 {
		return nil, missing(r, p.Resource, "")
	}
	q := &request{Request: r, kind: s.kinds[at], at: key{p.GroupResource(), p.Namespace, p.Name}, subresource: p.Subresource, body: body,
		dryRun: r.URL.Query().Get("dryRun") != ""}
	switch {
	case p.Name != "":
		return s.one(q)
	case r.Method == http.MethodPost:
		return s.create(q)
	case r.Method == http.MethodGet:
		return s.list(q)
	}
	return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(r.Method))
}

func missing(r *http.Request, resource, name string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method),
		metav1.Unversioned.WithResource(resource).GroupResource(), name, "", 0, false)
}

func (s *Server) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range s.kinds {
		if k.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		at := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if at < 0 {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, PreferredVersion: version})
			at = len(list.Groups) - 1
		}
		if !slices.Contains(list.Groups[at].Versions, version) {
			list.Groups[at].Versions = append(list.Groups[at].Versions, version)
		}
	}
	return list
}

func (s *Server) resources(version schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range s.kinds {
		if k.GroupVersion() != version {
			continue
		}
		list.GroupVersion = version.String()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.GroupVersionResource.Resource, Kind: k.Kind, Namespaced: k.Namespaced, ShortNames: k.ShortNames,
			SingularName: strings.ToLower(k.Kind),
			Verbs:        metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	return list
}

func (q *request) bad(err error) *apierrors.StatusError { return apierrors.NewBadRequest(err.Error()) }

// modified is the answer to a request for an older version of an object.
func (q *request) modified() *apierrors.StatusError {
	return apierrors.NewConflict(q.at.GroupResource, q.at.name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// empty is an object before it is created.
func (q *request) empty() map[string]any {
	return map[string]any{"apiVersion": q.kind.GroupVersion().String(), "kind": q.kind.Kind, "metadata": map[string]any{}}
}

// check rejects unknown and mistyped fields of an object as an API server does with fieldValidation=Strict.
func (s *Server) check(q *request, before, tree map[string]any) *apierrors.StatusError {
	if q.subresource == "scale" {
		return nil
	}
	found := mistakes(q.kind, before, tree)
	switch {
	case len(found) == 0:
		return nil
	case s.lenient:
		s.mistakes = append(s.mistakes, (&Object{Kind: q.kind, Namespace: q.at.namespace, Name: cmp.Or(q.at.name, "(new)")}).Ref()+": "+
			strings.Join(found, ", "))
		return nil
	}
	text := "strict decoding error: " + strings.Join(found, ", ")
	if q.Method == http.MethodPatch && !q.isApply() {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", q.at.GroupResource, q.at.name, text, 0, true)
	}
	return q.bad(fmt.Errorf("%s in version %q cannot be handled as a %s: %s", q.kind.Kind, q.kind.GroupVersion(), q.kind.Kind, text))
}

func (q *request) patchType() types.PatchType {
	media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";")
	return types.PatchType(media)
}

func (q *request) isApply() bool {
	return q.Method == http.MethodPatch && q.patchType() == types.ApplyPatchType
}

func (s *Server) create(q *request) (any, *apierrors.StatusError) {
	tree, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	metadata := metadataOf(tree)
	if prefix, _ := metadata["generateName"].(string); metadata["name"] == nil && prefix != "" {
		metadata["name"] = fmt.Sprintf("%s%05d", prefix, s.uids+1)
	}
	if q.kind.Namespaced {
		metadata["namespace"] = q.at.namespace
	}
	q.at = keyOf(q.kind, tree)
	if err := s.check(q, nil, tree); err != nil {
		return nil, err
	}
	if q.kind.Status {
		delete(tree, "status")
	}
	if s.objects[q.at] != nil {
		return nil, apierrors.NewAlreadyExists(q.at.GroupResource, q.at.name)
	}
	o, failure := q.updated(q.empty(), tree)
	if failure != nil {
		return nil, failure
	}
	return s.made(q, o), nil
}

// made stores a new object, unless the request is a dry run.
func (s *Server) made(q *request, o *stored) created {
	if !q.dryRun {
		s.store(q.at, o)
	}
	return created{o.shown()}
}

// list returns the objects of a kind that have the labels of the request, in all namespaces or one.
func (s *Server) list(q *request) (any, *apierrors.StatusError) {
	selector, err := labels.Parse(q.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, q.bad(err)
	}
	items := []any{}
	for _, at := range slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}) {
		o := s.objects[at]
		if at.GroupResource != q.at.GroupResource || q.at.namespace != "" && at.namespace != q.at.namespace {
			continue
		}
		of := labels.Set{}
		given, _ := metadataOf(o.tree)["labels"].(map[string]any)
		for name, value := range given {
			of[name], _ = value.(string)
		}
		if selector.Matches(of) {
			items = append(items, o.shown())
		}
	}
	return map[string]any{
		"apiVersion": q.kind.GroupVersion().String(), "kind": q.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": items,
	}, nil
}

// one serves a request for one object.
func (s *Server) one(q *request) (any, *apierrors.StatusError) {
	live := s.objects[q.at]
	switch {
	case live == nil && q.isApply() && q.subresource == "":
		o, err := s.apply(q, nil)
		if err != nil {
			return nil, err
		}
		return s.made(q, o), nil
	case live == nil:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
	case q.subresource != "" && !q.serves():
		return nil, missing(q.Request, q.at.Resource+"/"+q.subresource, q.at.name)
	}
	change := s.edit
	switch {
	case q.Method == http.MethodGet:
		return q.view(live.shown()), nil
	case q.Method == http.MethodDelete:
		return s.delete(q, live)
	case q.isApply():
		change = s.apply
	}
	next, err := change(q, live)
	if err != nil {
		return nil, err
	}
	if !q.dryRun {
		s.update(q.at, live, next.tree)
		live.managed, next = next.managed, live
	}
	return q.view(next.shown()), nil
}

func (q *request) serves() bool {
	switch q.subresource {
	case "status":
		return q.kind.Status || q.kind.Guessed
	case "scale":
		return q.kind.Scale || q.kind.Guessed
	}
	return false
}

// view is what a request reads: the object, or its Scale.
func (q *request) view(tree map[string]any) map[string]any {
	if q.subresource != "scale" {
		return tree
	}
	spec, _ := tree["spec"].(map[string]any)
	replicas, ok := spec["replicas"]
	if !ok {
		replicas = int64(1)
	}
	metadata := metadataOf(tree)
	status, _ := tree["status"].(map[string]any)
	current, ok := status["replicas"]
	if !ok {
		current = int64(0)
	}
	return map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": replicas},
		"status": map[string]any{"replicas": current},
		"metadata": map[string]any{"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
			"resourceVersion": metadata["resourceVersion"]},
	}
}

// merge takes from after what a request may write.
func (q *request) merge(live, after map[string]any) map[string]any {
	take := func(from, to map[string]any, field string) {
		delete(to, field)
		if value, ok := from[field]; ok {
			to[field] = value
		}
	}
	switch {
	case q.subresource == "status":
		tree := runtime.DeepCopyJSON(live)
		take(after, tree, "status")
		return tree
	case q.subresource == "scale":
		tree := runtime.DeepCopyJSON(live)
		spec, _ := tree["spec"].(map[string]any)
		if spec == nil {
			spec = map[string]any{}
			tree["spec"] = spec
		}
		scaled, _ := after["spec"].(map[string]any)
		take(scaled, spec, "replicas")
		return tree
	case q.kind.Status:
		take(live, after, "status")
	}
	for _, field := range []string{"apiVersion", "kind"} {
		take(live, after, field)
	}
	return after
}

// edit returns what a request that is no apply makes of an object.
func (s *Server) edit(q *request, live *stored) (*stored, *apierrors.StatusError) {
	seen := q.view(live.shown())
	after, failure := q.edited(seen)
	if failure != nil {
		return nil, failure
	}
	if version, ok := metadataOf(after)["resourceVersion"].(string); ok && version != "" && version != metadataOf(seen)["resourceVersion"] {
		return nil, q.modified()
	}
	before := live.shown()
	tree := q.merge(before, after)
	if q.kind.Namespaced {
		metadataOf(tree)["namespace"] = q.at.namespace
	}
	if err := s.check(q, live.tree, tree); err != nil {
		return nil, err
	}
	return q.updated(before, tree)
}

// edited returns what a request makes of what it reads.
func (q *request) edited(seen map[string]any) (map[string]any, *apierrors.StatusError) {
	kind := q.patchType()
	before, _ := json.Marshal(seen)
	switch {
	case q.Method == http.MethodPut:
		return q.decoded(q.body)
	case q.Method != http.MethodPatch:
	case kind == types.MergePatchType:
		text, err := jsonpatch.MergePatch(before, q.body)
		if err != nil {
			return nil, q.bad(err)
		}
		return q.decoded(text)
	case kind == types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(q.body)
		if err != nil {
			return nil, q.bad(err)
		}
		text, err := patch.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", q.at.GroupResource, q.at.name,
				err.Error(), 0, true)
		}
		return q.decoded(text)
	}
	return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(q.Method))
}

func (q *request) decoded(text []byte) (map[string]any, *apierrors.StatusError) {
	tree, err := decode(text)
	if err != nil {
		return nil, q.bad(err)
	}
	return tree, nil
}

func (s *Server) delete(q *request, live *stored) (any, *apierrors.StatusError) {
	metadata := metadataOf(live.tree)
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return nil, q.bad(err)
		}
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && string(*p.UID) != metadata["uid"] ||
		p.ResourceVersion != nil && *p.ResourceVersion != metadata["resourceVersion"]) {
		return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name, fmt.Errorf("the preconditions of the deletion are not met"))
	}
	finalizers, _ := metadata["finalizers"].([]any)
	switch {
	case q.dryRun:
	case len(finalizers) > 0 && metadata["deletionTimestamp"] == nil:
		tree := runtime.DeepCopyJSON(live.tree)
		metadataOf(tree)["deletionTimestamp"] = moment
		s.update(q.at, live, tree)
	case len(finalizers) == 0:
		s.remove(q.at)
		uid, _ := metadata["uid"].(string)
		return &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: q.at.name, Group: q.at.Group, Kind: q.at.Resource, UID: types.UID(uid)},
		}, nil
	}
	return live.shown(), nil
}
