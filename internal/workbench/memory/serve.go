package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	status := http.StatusOK
	if err != nil {
		text := err.Status()
		text.Kind, text.APIVersion = "Status", "v1"
		status, answer = int(text.Code), text
	} else if r.Method == http.MethodPost {
		status = http.StatusCreated
	}
	text, failed := json.Marshal(answer)
	if failed != nil {
		return nil, failed
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)), Request: r,
	}, nil
}

// request is a request for objects.
type request struct {
	*http.Request
	kind        Kind
	at          key
	subresource string
	body        []byte
	// manager is the field manager, dryRun a request that changes nothing.
	dryRun bool
}

// serve requires mu.
func (s *Server) serve(r *http.Request, body []byte) (any, *apierrors.StatusError) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(segments) == 1 && segments[0] == "apis":
		return s.groups(), nil
	case len(segments) >= 2 && segments[0] == "api":
		return s.version1("", segments[1], segments[2:], r, body)
	case len(segments) >= 3 && segments[0] == "apis":
		return s.version1(segments[1], segments[2], segments[3:], r, body)
	}
	return nil, missing(r, "", "")
}

func missing(r *http.Request, resource, name string) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, strings.ToLower(r.Method), metav1.Unversioned.WithResource(resource).GroupResource(), name, "", 0, false)
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

func (s *Server) resources(group, version string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range s.kinds {
		if k.Group != group || k.Version != version {
			continue
		}
		list.GroupVersion = k.GroupVersion().String()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.GroupVersionResource.Resource, Kind: k.Kind, Namespaced: k.Namespaced, ShortNames: k.ShortNames, SingularName: strings.ToLower(k.Kind),
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	return list
}

// version1 serves one version of a group.
func (s *Server) version1(group, version string, segments []string, r *http.Request, body []byte) (any, *apierrors.StatusError) {
	if len(segments) == 0 {
		if list := s.resources(group, version); len(list.APIResources) > 0 {
			return list, nil
		}
		return nil, missing(r, "", "")
	}
	namespace := ""
	if segments[0] == "namespaces" && len(segments) >= 3 && segments[2] != "status" && segments[2] != "finalize" {
		namespace, segments = segments[1], segments[2:]
	}
	at := slices.IndexFunc(s.kinds, func(k Kind) bool {
		return k.Group == group && k.Version == version && k.GroupVersionResource.Resource == segments[0]
	})
	if at < 0 {
		return nil, missing(r, segments[0], "")
	}
	q := &request{Request: r, kind: s.kinds[at], body: body, dryRun: r.URL.Query().Get("dryRun") != ""}
	q.at = key{GroupResource: q.kind.GroupResource(), namespace: namespace}
	if len(segments) > 1 {
		q.at.name = segments[1]
	}
	if len(segments) > 2 {
		q.subresource = segments[2]
	}
	if q.at.name == "" {
		if r.Method == http.MethodPost {
			return s.create(q)
		}
		return nil, apierrors.NewMethodNotSupported(q.at.GroupResource, strings.ToLower(r.Method))
	}
	return s.one(q)
}

func (q *request) bad(err error) *apierrors.StatusError { return apierrors.NewBadRequest(err.Error()) }

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
	if q.kind.Status {
		delete(tree, "status")
	}
	at := keyOf(q.kind, tree)
	if s.objects[at] != nil {
		return nil, apierrors.NewAlreadyExists(at.GroupResource, at.name)
	}
	if !q.dryRun {
		s.store(at, &stored{kind: q.kind, tree: tree})
	}
	return tree, nil
}

// one serves a request for one object.
func (s *Server) one(q *request) (any, *apierrors.StatusError) {
	live := s.objects[q.at]
	media, _, _ := strings.Cut(q.Header.Get("Content-Type"), ";")
	isApply := q.Method == http.MethodPatch && types.PatchType(media) == types.ApplyPatchType
	switch {
	case live == nil && isApply && q.subresource == "":
		return s.applyNew(q)
	case live == nil:
		return nil, apierrors.NewNotFound(q.at.GroupResource, q.at.name)
	case q.subresource != "" && !q.serves():
		return nil, missing(q.Request, q.at.Resource+"/"+q.subresource, q.at.name)
	}
	seen := q.view(live.tree)
	switch q.Method {
	case http.MethodGet:
		return seen, nil
	case http.MethodDelete:
		return s.delete(q, live)
	}
	after, err := s.changed(q, live, seen, types.PatchType(media))
	if err != nil {
		return nil, err
	}
	tree := q.merge(live.tree, after)
	if !q.dryRun {
		s.update(q.at, live, tree)
	}
	return q.view(tree), nil
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
		return clone(tree)
	}
	spec, _ := tree["spec"].(map[string]any)
	replicas, ok := spec["replicas"]
	if !ok {
		replicas = json.Number("1")
	}
	metadata := metadataOf(tree)
	return clone(map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": replicas},
		"metadata": map[string]any{"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
	})
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
		tree := clone(live)
		take(after, tree, "status")
		return tree
	case q.subresource == "scale":
		tree := clone(live)
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

// changed returns what the request makes of what it reads.
func (s *Server) changed(q *request, live *stored, seen map[string]any, kind types.PatchType) (map[string]any, *apierrors.StatusError) {
	before, _ := json.Marshal(seen)
	switch {
	case q.Method == http.MethodPut:
		after, err := decode(q.body)
		if err != nil {
			return nil, q.bad(err)
		}
		given, _ := metadataOf(after)["resourceVersion"].(string)
		if given != "" && given != metadataOf(live.tree)["resourceVersion"] {
			return nil, apierrors.NewConflict(q.at.GroupResource, q.at.name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
		}
		return after, nil
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
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", q.at.GroupResource, q.at.name, err.Error(), 0, true)
		}
		return q.decoded(text)
	case kind == types.ApplyPatchType:
		return s.apply(q, live, seen)
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

// applyNew creates an object by server-side apply.
func (s *Server) applyNew(q *request) (any, *apierrors.StatusError) {
	applied, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	body := clone(applied)
	metadata := metadataOf(body)
	if metadata["name"] = q.at.name; q.kind.Namespaced {
		metadata["namespace"] = q.at.namespace
	}
	if q.kind.Status {
		delete(body, "status")
	}
	if !q.dryRun {
		s.store(q.at, &stored{kind: q.kind, tree: body, applied: applied})
	}
	return body, nil
}

// apply merges what is applied: maps are merged, lists replaced, and what was applied before and is missing now is removed.
func (s *Server) apply(q *request, live *stored, seen map[string]any) (map[string]any, *apierrors.StatusError) {
	applied, err := decode(q.body)
	if err != nil {
		return nil, q.bad(err)
	}
	exact := true
	merge(seen, applied, live.applied, &exact)
	if !q.dryRun {
		live.applied = applied
		if !exact {
			s.approximate[(&Object{Kind: live.kind, Namespace: q.at.namespace, Name: q.at.name}).Ref()] = true
		}
	}
	return seen, nil
}

func merge(live, applied, before map[string]any, exact *bool) {
	for field := range before {
		if _, still := applied[field]; !still {
			delete(live, field)
		}
	}
	for field, value := range applied {
		was, is := live[field].(map[string]any)
		wanted, isMap := value.(map[string]any)
		if is && isMap {
			previous, _ := before[field].(map[string]any)
			merge(was, wanted, previous, exact)
			continue
		}
		if list, isList := live[field].([]any); isList && !reflect.DeepEqual(list, value) && !reflect.DeepEqual(live[field], before[field]) {
			*exact = false // an API server merges some lists by keys
		}
		live[field] = value
	}
}

func (s *Server) delete(q *request, live *stored) (any, *apierrors.StatusError) {
	metadata := metadataOf(live.tree)
	var options metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &options); err != nil {
			return nil, q.bad(err)
		}
	}
	finalizers, _ := metadata["finalizers"].([]any)
	switch {
	case q.dryRun:
	case len(finalizers) > 0 && metadata["deletionTimestamp"] == nil:
		tree := clone(live.tree)
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
	return maps.Clone(live.tree), nil
}
