package patch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// request is one patch and the resource that it changes.
type request struct {
	*Options
	*batch
	patch    *effect.Patch
	resource kube.Resource
	log      *slog.Logger
}

// conflicts are retried three times.
var conflicts = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 5, Jitter: 0.1, Steps: 4}

// metadataOnly requests the metadata of an object. Custom API servers may not support that and send all of it.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

func (r *request) do(ctx context.Context) error {
	if r.patch.Namespace == "" && r.resource.Namespaced {
		field := "namespace"
		if r.patch.Operation.HasObject() {
			field = "object.metadata.namespace"
		}
		return fmt.Errorf("%s is namespaced, but %s is not set", r.resource.Kind, field)
	}
	// wire has checked this. It is checked again because the client resolves "..", which would change another object.
	for _, part := range []string{r.patch.Namespace, r.patch.Name, r.patch.Subresource} {
		if problems := content.IsPathSegmentName(part); len(problems) > 0 {
			return fmt.Errorf("%q cannot be a part of a path: %s", part, strings.Join(problems, " and "))
		}
	}
	namespace, rules := needs(r.patch, r.resource)
	r.sent.note(r.run.Hook, r.patch.Operation, namespace, rules...)
	switch r.patch.Operation {
	case effect.Create:
		return r.create(ctx)
	case effect.CreateIfNotExists:
		_, _, err := r.createUnlessExists(ctx)
		return err
	case effect.CreateOrUpdate:
		return r.createOrUpdate(ctx)
	case effect.ServerSideApply:
		return r.apply(ctx)
	case effect.Delete:
		return r.deleteAndWait(ctx)
	case effect.DeleteInBackground:
		_, err := r.delete(ctx, metav1.DeletePropagationBackground)
		return err
	case effect.DeleteNonCascading:
		_, err := r.delete(ctx, metav1.DeletePropagationOrphan)
		return err
	case effect.MergePatch:
		return r.send(ctx, types.MergePatchType)
	case effect.JSONPatch:
		return r.send(ctx, types.JSONPatchType)
	case effect.JQPatch:
		return r.filter(ctx)
	case effect.SetCondition:
		return r.condition(ctx)
	}
	return fmt.Errorf("unknown operation %d", r.patch.Operation)
}

// to completes a request that writes.
func (r *request) to(req *rest.Request, path []string) *rest.Request {
	manager := fieldManager
	if c := r.patch.Condition; c != nil {
		manager = kube.FieldManager(r.Instance, r.run.Hook, "condition", c.Type)
	}
	req = req.AbsPath(path...).Param("fieldManager", manager)
	if r.DryRun {
		req = req.Param("dryRun", "All")
	}
	return req
}

func (r *request) collection() []string { return r.resource.Path(r.patch.Namespace) }

func (r *request) object(subresource string) []string {
	path := append(r.resource.Path(r.patch.Namespace), r.patch.Name)
	if subresource != "" {
		path = append(path, subresource)
	}
	return path
}

// write sends a request that changes the object, and reports the answer to the run.
func (r *request) write(ctx context.Context, req *rest.Request) error {
	_, err := r.answer(ctx, req)
	return err
}

func (r *request) answer(ctx context.Context, req *rest.Request) ([]byte, error) {
	text, err := kube.Send(ctx, req)
	if err == nil {
		r.report(ctx, text)
	}
	return text, err
}

// own prepares a request for bindings that distinguish own changes. Written is nil without one.
func (r *request) own(ctx context.Context) (known effect.Known, written func(before, after string)) {
	if r.DryRun || r.patch.Subresource != "" && r.patch.Subresource != "status" {
		return known, nil
	}
	return effect.Own(ctx, r.resource.Group, r.resource.Resource, r.patch.Namespace, r.patch.Name)
}

// replace sends an object with the version that was read.
func (r *request) replace(ctx context.Context, req *rest.Request, before func() string) error {
	_, written := r.own(ctx)
	text, err := r.answer(ctx, req)
	switch {
	case written == nil:
	case err != nil:
		written("", "")
	default:
		written(before(), versionOf(text))
	}
	return err
}

// pinned sends a request for the version that a binding has, so that its answer belongs to an own change. It reports false if the
// API server has rejected it, or there is no such version.
func (r *request) pinned(ctx context.Context, body []byte, send func(body []byte) *rest.Request) (done bool, err error) {
	known, written := r.own(ctx)
	if written == nil {
		return false, nil
	}
	before, after := "", ""
	defer func() { written(before, after) }()
	if body = pin(body, known.Version); known.Version == "" || body == nil {
		return false, nil
	}
	text, err := r.answer(ctx, send(body))
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		return false, nil // of other errors it is not known whether the patch was applied
	}
	if err == nil {
		before, after = known.Version, versionOf(text)
	}
	return true, err
}

// pin adds a version to a JSON patch, a merge patch or a manifest; nil if that is not possible.
func pin(body []byte, version string) []byte {
	var steps []json.RawMessage
	if json.Unmarshal(body, &steps) == nil {
		test, _ := json.Marshal(step{"test", "/metadata/resourceVersion", version})
		body, _ = json.Marshal(append([]json.RawMessage{test}, steps...))
		return body
	}
	body, err := withResourceVersion(body, version)
	if err != nil {
		return nil
	}
	return body
}

// versionOf is the resource version of an object as JSON.
func versionOf(text []byte) string {
	var o metav1.PartialObjectMetadata
	_ = json.Unmarshal(text, &o)
	return o.ResourceVersion
}

func (r *request) report(ctx context.Context, text []byte) {
	if !r.DryRun {
		a := r.answered()
		a.Text = text
		effect.Report(ctx, a)
	}
}

func (r *request) answered() effect.Answered {
	return effect.Answered{Group: r.resource.Group, Resource: r.resource.Resource, Kind: r.resource.Kind, Namespace: r.patch.Namespace,
		Name: r.patch.Name}
}

func (r *request) create(ctx context.Context) error {
	path := r.collection()
	if r.patch.Subresource != "" {
		path = r.object(r.patch.Subresource)
	}
	return r.write(ctx, r.to(r.Client.Post(), path).SetHeader("Content-Type", "application/json").Body(r.patch.Object))
}

// retry retries do when another client has changed the object at the same time.
func (r *request) retry(do func() error) error {
	for backoff := conflicts; ; time.Sleep(backoff.Step()) {
		err := do()
		// A retry does not help if another manager owns a field.
		if !apierrors.IsConflict(err) || apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || backoff.Steps <= 1 {
			return err
		}
	}
}

// createUnlessExists reports whether the object exists, with its metadata if they were read. An API server may check quotas, ports,
// policies and permissions before the name, so that any rejection may be about an object that exists.
func (r *request) createUnlessExists(ctx context.Context) (exists bool, live *metav1.PartialObjectMetadata, err error) {
	err = r.create(ctx)
	status := apierrors.APIStatus(nil)
	if r.patch.Name == "" || !errors.As(err, &status) { // a generated name that is taken belongs to another object
		return false, nil, err
	}
	switch status.Status().Code {
	case http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
		if apierrors.IsAlreadyExists(err) {
			return true, nil, nil
		}
		if live, failed := r.read(kube.Optional(ctx)); failed == nil && live.DeletionTimestamp == nil {
			return true, live, nil
		}
	}
	return false, nil, err
}

// read returns the metadata of the object.
func (r *request) read(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	text, err := kube.Send(ctx, r.Client.Get().AbsPath(r.object("")...).SetHeader("Accept", metadataOnly))
	if err != nil {
		return nil, err
	}
	live := &metav1.PartialObjectMetadata{}
	return live, json.Unmarshal(text, live)
}

// createOrUpdate replaces an object that exists: fields that are not in the manifest are removed.
func (r *request) createOrUpdate(ctx context.Context) error {
	exists, live, err := r.createUnlessExists(ctx)
	if !exists {
		return err
	}
	return r.retry(func() error {
		if live == nil {
			if live, err = r.read(ctx); err != nil {
				return err
			}
		}
		version := live.ResourceVersion
		live = nil // another attempt reads it again
		body, err := withResourceVersion(r.patch.Object, version)
		if err != nil {
			return err
		}
		return r.replace(ctx, r.to(r.Client.Put(), r.object("")).SetHeader("Content-Type", "application/json").Body(body),
			func() string { return version })
	})
}

// withResourceVersion adds a version to a manifest or a merge patch.
func withResourceVersion(object []byte, version string) ([]byte, error) {
	return jsonpatch.MergePatch(object, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, version))
}

// apply sends a server-side apply.
func (r *request) apply(ctx context.Context) error {
	send := func(body []byte) *rest.Request {
		req := r.to(r.Client.Patch(types.ApplyPatchType), r.object(r.patch.Subresource)).Body(body)
		if r.patch.Force {
			req = req.Param("force", "true")
		}
		return req
	}
	if done, err := r.pinned(ctx, r.patch.Object, send); done {
		return err
	}
	return r.retry(func() error {
		err := r.write(ctx, send(r.patch.Object))
		if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
			return fmt.Errorf("%w: set \"force: true\" to take ownership of the fields", err)
		}
		return err
	})
}

func (r *request) send(ctx context.Context, kind types.PatchType) error {
	send := func(body []byte) *rest.Request {
		return r.to(r.Client.Patch(kind), r.object(r.patch.Subresource)).Body(body)
	}
	if done, err := r.pinned(ctx, r.patch.Body, send); done {
		return err
	}
	return r.retry(func() error { return r.forgive(r.write(ctx, send(r.patch.Body))) })
}

// forgive ignores that the object is missing, if the patch says so.
func (r *request) forgive(err error) error {
	if r.patch.IgnoreMissingObject && apierrors.IsNotFound(err) && !kube.IsUnserved(err) {
		return nil
	}
	return err
}

// filter changes an object by a jq filter.
func (r *request) filter(ctx context.Context) error {
	program, err := r.Filters.CompileOnce(r.patch.Filter)
	if err != nil {
		return err
	}
	identity, err := r.Filters.Compile(".")
	if err != nil {
		return err
	}
	return r.retry(func() error {
		text, err := kube.Send(ctx, r.Client.Get().AbsPath(r.object("")...))
		if err != nil {
			return r.forgive(err)
		}
		tree, err := jq.Decode(text)
		if err != nil {
			return err
		}
		// Both go through jq, so that equal objects are equal bytes.
		before, err := identity.Apply(ctx, tree)
		if err != nil {
			return err
		}
		after, err := program.Apply(ctx, tree)
		if err != nil {
			return fmt.Errorf("jqFilter: %w", err)
		}
		var result struct{ Kind string }
		if json.Unmarshal(after, &result) != nil || result.Kind == "" {
			return errors.New("jqFilter must have exactly one result, which is the changed object")
		}
		if bytes.Equal(before, after) {
			return nil
		}
		known := func() string {
			if version := versionOf(text); versionOf(after) == version { // the filter may have removed it
				return version
			}
			return ""
		}
		put := r.to(r.Client.Put(), r.object(r.patch.Subresource)).SetHeader("Content-Type", "application/json").Body(after)
		return r.forgive(r.replace(ctx, put, known))
	})
}
