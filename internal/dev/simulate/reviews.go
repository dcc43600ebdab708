package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	httphooks "github.com/shell-operator/shell-operator/internal/source/http"
	"github.com/shell-operator/shell-operator/internal/source/webhook/admission"
	"github.com/shell-operator/shell-operator/internal/source/webhook/conversion"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// response is what a handler of the operator answers.
type response struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }

// ask sends a request to a handler of the operator.
func ask(ctx context.Context, handler http.Handler, method, url string, header http.Header, body []byte) (*response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header, r.RemoteAddr = header, "127.0.0.1:1"
	w := &response{status: http.StatusOK, header: http.Header{}}
	handler.ServeHTTP(w, r)
	return w, ctx.Err()
}

// transport sends requests to a handler in this process.
type transport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &response{status: http.StatusOK, header: http.Header{}}
	served := r.Clone(r.Context())
	if r.Body == nil {
		served.Body = http.NoBody
	}
	t.handler.ServeHTTP(w, served)
	return &http.Response{StatusCode: w.status, Status: fmt.Sprint(w.status, " ", http.StatusText(w.status)), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, served.Body.Close()
}

var jsonBody = http.Header{"Content-Type": {"application/json"}}

// connects are the resources of the objects of CONNECT.
var connects = map[string]string{
	"PodExecOptions": "pods/exec", "PodAttachOptions": "pods/attach", "PodPortForwardOptions": "pods/portforward",
	"PodProxyOptions":     "pods/proxy",
	"ServiceProxyOptions": "services/proxy", "NodeProxyOptions": "nodes/proxy",
}

// review sends the reviews of a request: to mutating bindings in order, each with the patches of those before, then to validating ones,
// until one denies the request.
func (s *simulation) review(ctx context.Context) error {
	in := s.in.Review
	objects, kind, err := s.reviewed(in.Files)
	if err != nil {
		return err
	}
	handler := admission.New(admission.Options{Hooks: []*hook.Hook{s.hook}, Runner: apply.Responder{Runner: s.runner}, Log: silent()})
	defer handler.Wait()
	h, err := testfile.HeadOf(objects[0])
	if err != nil {
		return err
	}
	q := admissionv1.AdmissionRequest{
		Kind:     metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource: metav1.GroupVersionResource(kind.GroupVersionResource),
		Name:     h.Metadata.Name, Namespace: h.Metadata.Namespace, Operation: admissionv1.Operation(in.Operation), DryRun: new(false),
	}
	q.Object.Raw = objects[len(objects)-1]
	if q.UserInfo.Username, q.UserInfo.Groups = s.in.As, s.in.AsGroups; s.in.As == "" {
		q.UserInfo.Username, q.UserInfo.Groups = "kubernetes-admin", append([]string{"system:authenticated"}, s.in.AsGroups...)
	}
	if resource, sub, ok := strings.Cut(connects[h.Kind], "/"); ok {
		q.Resource.Resource, q.SubResource = resource, sub
	}
	q.RequestKind, q.RequestResource = &q.Kind, &q.Resource
	switch q.Operation {
	case admissionv1.Update:
		q.OldObject.Raw = objects[0]
	case admissionv1.Delete:
		q.Object.Raw, q.OldObject.Raw = nil, objects[0]
	}
	verdict := &wire.Admission{}
	for _, typ := range []event.Type{event.Mutating, event.Validating} {
		bindings := s.hook.Validating
		if typ == event.Mutating {
			bindings = s.hook.Mutating
		}
		for i := range bindings {
			if reason := s.unreviewed(&bindings[i], &q, kind.Namespaced); reason != "" {
				s.result.Excluded = append(s.result.Excluded, fmt.Sprintf("binding %q: %s", bindings[i].Name, reason))
				continue
			}
			if len(bindings[i].MatchConditions) > 0 {
				s.result.Notes = append(s.result.Notes, fmt.Sprintf("binding %q: matchConditions are not evaluated", bindings[i].Name))
			}
			allowed, err := s.admit(ctx, handler, typ, i, &q, verdict)
			if err != nil || !allowed {
				return err
			}
		}
	}
	return nil
}

// reviewed reads the objects of a request.
func (s *simulation) reviewed(files []string) (objects [][]byte, kind memory.Kind, err error) {
	manifests, err := testfile.ReadManifests(files)
	if err != nil {
		return nil, kind, err
	}
	if len(manifests) != len(files) {
		return nil, kind, fmt.Errorf("each file of a review has one object, %s has not", listed(files))
	}
	for _, m := range manifests {
		h, err := testfile.HeadOf(m.Text)
		if err != nil {
			return nil, kind, fmt.Errorf("%s: %w", m.Path, err)
		}
		if connects[h.Kind] != "" { // they are no objects of their own
			kind.GroupVersionResource.Version, kind.Resource.Kind, kind.Namespaced = "v1", h.Kind, h.Kind != "NodeProxyOptions"
		} else {
			if err := s.learn(m); err != nil {
				return nil, kind, err
			}
			kind, _ = s.server.Resolve(h.APIVersion, h.Kind)
		}
		text := m.Text
		if kind.Namespaced && h.Metadata.Namespace == "" {
			if text, err = jsonpatch.MergePatch(text, []byte(`{"metadata":{"namespace":"default"}}`)); err != nil {
				return nil, kind, err
			}
		}
		objects = append(objects, text)
	}
	return objects, kind, nil
}

// unreviewed is why the API server would not send a request to a binding; "" if it would.
func (s *simulation) unreviewed(b *hook.Admission, q *admissionv1.AdmissionRequest, namespaced bool) (reason string) {
	if s.in.Binding != "" && b.Name != s.in.Binding {
		return fmt.Sprintf("only %q is chosen", s.in.Binding)
	}
	if !slices.ContainsFunc(b.Rules, func(r hook.Rule) bool { return ruleMatches(&r, q, namespaced) }) {
		resource := q.Resource.Resource
		if q.SubResource != "" {
			resource += "/" + q.SubResource
		}
		return fmt.Sprintf("no rule matches %s of %s in group %q, version %s", q.Operation, resource, q.Resource.Group, q.Resource.Version)
	}
	if b.ObjectLabels != nil && !selectsObject(b.ObjectLabels, q.Object.Raw) && !selectsObject(b.ObjectLabels, q.OldObject.Raw) {
		return "labelSelector does not match the labels of the object"
	}
	if b.NamespaceLabels != nil && namespaced {
		set := s.namespaceLabels(q.Namespace)
		set["kubernetes.io/metadata.name"] = q.Namespace
		if !selects(b.NamespaceLabels, set) {
			return fmt.Sprintf("namespace.labelSelector does not match the labels of namespace %q", q.Namespace)
		}
	}
	return ""
}

// namespaceLabels returns the labels of a namespace; one that does not exist has none.
func (s *simulation) namespaceLabels(name string) labels.Set {
	o, err := find(s.server, "namespace/"+name)
	if err != nil {
		return labels.Set{}
	}
	return labelsOf(o.JSON)
}

func labelsOf(object []byte) labels.Set {
	h, err := testfile.HeadOf(object)
	if err != nil || h.Metadata.Labels == nil {
		return labels.Set{}
	}
	return h.Metadata.Labels
}

// selectsObject is false for an object that a request does not have, whatever the selector.
func selectsObject(s *hook.LabelSelector, object []byte) bool {
	return object != nil && selects(s, labelsOf(object))
}

func selects(s *hook.LabelSelector, set labels.Set) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(set)
}

func ruleMatches(r *hook.Rule, q *admissionv1.AdmissionRequest, namespaced bool) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, "*")
	}
	if !has(r.APIGroups, q.Resource.Group) || !has(r.APIVersions, q.Resource.Version) || !has(r.Operations, string(q.Operation)) {
		return false
	}
	if r.Scope == "Cluster" && namespaced || r.Scope == "Namespaced" && !namespaced {
		return false
	}
	return slices.ContainsFunc(r.Resources, func(resource string) bool {
		name, sub, _ := strings.Cut(resource, "/")
		return (name == "*" || name == q.Resource.Resource) && (sub == q.SubResource || sub == "*")
	})
}

// admit sends one review, and adds its response to the verdict.
func (s *simulation) admit(ctx context.Context, handler http.Handler, typ event.Type, index int, q *admissionv1.AdmissionRequest,
	verdict *wire.Admission) (allowed bool, err error) {
	q.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.result.Runs+1))
	review := admissionv1.AdmissionReview{Request: q}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	path := admission.Path(s.hook, hook.Address{Kind: typ.Kind(), Index: index})
	w, err := ask(ctx, handler, http.MethodPost, path+"?timeout=30s", jsonBody, body)
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(w.body.Bytes(), &review); err != nil || w.status != http.StatusOK || review.Response == nil {
		return false, fmt.Errorf("the review was rejected with status %d: %s", w.status, w.body.Bytes())
	}
	r := review.Response
	verdict.Allowed, s.result.Admission = r.Allowed, verdict
	if !r.Allowed && r.Result != nil {
		verdict.Message = r.Result.Message
	}
	verdict.Warnings = append(verdict.Warnings, r.Warnings...)
	if len(r.Patch) == 0 {
		return r.Allowed, nil
	}
	var steps, more []json.RawMessage
	_ = json.Unmarshal(verdict.Patch, &steps) // there may be none
	if json.Unmarshal(r.Patch, &more) == nil {
		verdict.Patch, _ = json.Marshal(append(steps, more...)) // it was read
	}
	q.Object.Raw, err = admission.ApplyPatch(q.Object.Raw, r.Patch)
	return r.Allowed, err
}

// convert sends a conversion review for the objects of a file.
func (s *simulation) convert(ctx context.Context) error {
	manifests, err := testfile.ReadManifests([]string{s.in.Convert.File})
	if err != nil {
		return err
	}
	if len(manifests) == 0 {
		return fmt.Errorf("%s has no object", s.in.Convert.File)
	}
	if err := s.learn(manifests...); err != nil {
		return err
	}
	h, err := testfile.HeadOf(manifests[0].Text)
	if err != nil {
		return err
	}
	kind, _ := s.server.Resolve(h.APIVersion, h.Kind)
	crd := kind.GroupResource().String()
	objects := make([]json.RawMessage, len(manifests))
	for i, m := range manifests {
		objects[i] = m.Text
	}
	if !slices.ContainsFunc(s.hook.Conversions, func(c hook.Conversion) bool { return c.CRDName == crd }) {
		s.result.Excluded = append(s.result.Excluded, fmt.Sprintf("no binding converts %s", crd))
		return nil
	}
	version := s.in.Convert.Version
	if !strings.Contains(version, "/") {
		version = kind.Group + "/" + version
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"request": map[string]any{"uid": "00000000-0000-4000-8000-000000000001", "desiredAPIVersion": version, "objects": objects},
	})
	if err != nil {
		return err
	}
	handler := conversion.NewHandler(conversion.Options{Hooks: []*hook.Hook{s.hook}, Runner: apply.Responder{Runner: s.runner},
		Log: silent()})
	w, err := ask(ctx, handler, http.MethodPost, "/"+crd, jsonBody, body)
	if err != nil {
		return err
	}
	var review struct {
		Response struct {
			ConvertedObjects []json.RawMessage
			Result           struct{ Status, Message string }
		}
	}
	if err := json.Unmarshal(w.body.Bytes(), &review); err != nil || w.status != http.StatusOK {
		return fmt.Errorf("the conversion was rejected with status %d: %s", w.status, w.body.Bytes())
	}
	r := review.Response
	s.result.Conversion = &effect.ConversionAnswer{Objects: r.ConvertedObjects, Failure: r.Result.Message}
	return nil
}

// request sends an HTTP request.
func (s *simulation) request(ctx context.Context) error {
	o := httphooks.Options{Hooks: []*hook.Hook{s.hook}, Runner: apply.Responder{Runner: s.runner}, Log: silent()}
	if s.in.As != "" {
		o.As = &event.User{Name: s.in.As, Groups: s.in.AsGroups}
	}
	handler := httphooks.New(o)
	defer handler.Wait()
	method, url, _ := strings.Cut(s.in.HTTP, " ")
	header := http.Header{}
	for _, line := range s.in.Headers {
		name, value, _ := strings.Cut(line, ":")
		header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	var body []byte
	var err error
	if s.in.Body != "" {
		if body, err = os.ReadFile(s.in.Body); err != nil {
			return fmt.Errorf("cannot read the body: %w", err)
		}
	}
	w, err := ask(ctx, handler, method, url, header, body)
	if err != nil {
		return err
	}
	if s.result.Runs == 0 {
		s.result.Excluded = append(s.result.Excluded, fmt.Sprintf("the operator answers itself with status %d: %s", w.status,
			strings.TrimSpace(w.body.String())))
	}
	w.header.Del("X-Content-Type-Options")
	s.result.HTTP = wire.FormatHTTP(effect.HTTPAnswer{Status: w.status, Headers: w.header, Body: w.body.Bytes()})
	return nil
}
