package applyset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

var (
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	secretKind    = schema.GroupKind{Kind: "Secret"}
)

// phases: what others need is applied first, and what may reject others last.
const phases = 3

func phaseOf(kind schema.GroupKind) int {
	switch {
	case kind == crdKind, kind == namespaceKind:
		return 0
	case kind.Group == "admissionregistration.k8s.io":
		return 2
	}
	return 1
}

// wanted is a member as the hook wants it.
type wanted struct {
	ref
	index  int
	member *effect.Member
	// resource has no version until the API server serves the kind.
	resource kube.Resource
	// err is why the object cannot be applied.
	err error
	// rest has the fields of the object beside its metadata.
	rest        []byte
	meta        map[string]json.RawMessage
	labels      map[string]string
	annotations map[string]string
	references  []metav1.OwnerReference
	// version is the resource version of the existing object.
	version string
	// kept: the existing object has the annotation that keeps it.
	kept bool
}

func (o *wanted) served() bool { return o.resource.Version != "" }

func (o *wanted) decode() error {
	var tree map[string]json.RawMessage
	err := json.Unmarshal(o.member.Object, &tree)
	if err == nil {
		err = json.Unmarshal(tree["metadata"], &o.meta)
	}
	if err == nil && o.GroupKind == secretKind {
		err = encode(tree)
	}
	if delete(tree, "metadata"); err == nil {
		o.rest, err = json.Marshal(tree)
	}
	for key, into := range map[string]any{"labels": &o.labels, "annotations": &o.annotations, "ownerReferences": &o.references} {
		if text := o.meta[key]; err == nil && text != nil {
			if json.Unmarshal(text, into) != nil {
				err = fmt.Errorf("metadata.%s is not valid", key)
			}
		}
	}
	if o.labels == nil {
		o.labels = map[string]string{}
	}
	return err
}

// encode moves stringData of a Secret to data. The API server does that as well, but records the set as the manager of stringData only:
// then the change of a value by another client is no difference, and a key that the set no longer has stays.
func encode(secret map[string]json.RawMessage) error {
	if secret["stringData"] == nil {
		return nil
	}
	var texts map[string]string
	data := map[string]json.RawMessage{}
	if json.Unmarshal(secret["stringData"], &texts) != nil {
		return errors.New("stringData is not a mapping of texts")
	}
	if text := secret["data"]; text != nil && json.Unmarshal(text, &data) != nil {
		return errors.New("data is not a mapping")
	}
	if data == nil { // of null
		data = map[string]json.RawMessage{}
	}
	for key, text := range texts {
		data[key], _ = json.Marshal([]byte(text))
	}
	delete(secret, "stringData")
	secret["data"], _ = json.Marshal(data)
	return nil
}

// manifest returns what is applied of an object. Equal sets have equal manifests.
func (s *session) manifest(o *wanted) []byte {
	o.labels[partOfLabel] = s.id
	references := slices.DeleteFunc(slices.Clone(o.references), s.isOwner) // in objects from snapshots
	if s.owns(o) {
		references = append(references, s.ownerReference())
	}
	o.meta["labels"], _ = json.Marshal(o.labels)
	if delete(o.meta, "ownerReferences"); len(references) > 0 {
		o.meta["ownerReferences"], _ = json.Marshal(references)
	}
	if o.namespace != "" {
		o.meta["namespace"], _ = json.Marshal(o.namespace)
	}
	text, _ := json.Marshal(o.meta) // all of it came from JSON
	return slices.Concat([]byte(manifestStart[:len(manifestStart)-1]), text, []byte{','}, o.rest[1:])
}

// manifestStart begins all manifests: the metadata comes first.
const manifestStart = `{"metadata":{`

// pinned adds the uid of an existing object to a manifest, and a version if it may be in no other. It decodes nothing: after a restart that
// was a fifth of a Sync's CPU time.
func pinned(manifest []byte, uid types.UID, version string) []byte {
	if uid == "" {
		return manifest
	}
	text, _ := json.Marshal(uid)
	pins := slices.Concat([]byte(manifestStart+`"uid":`), text)
	if version != "" {
		pins = fmt.Appendf(pins, `,"resourceVersion":%q`, version)
	}
	return slices.Concat(pins, []byte{','}, manifest[len(manifestStart):])
}

// apply applies all objects, phase by phase.
func (s *session) apply(ctx context.Context) error {
	for phase := range phases {
		var objects []*wanted
		for _, o := range s.objects {
			if phaseOf(o.GroupKind) == phase {
				objects = append(objects, o)
			}
		}
		s.resolveDefined(ctx, objects)
		errs := make([]error, len(objects))
		kube.Concurrently(len(objects), parallel, func(i int) {
			if err := s.one(ctx, objects[i]); err != nil {
				errs[i] = fmt.Errorf("objects[%d] (%s): %w", objects[i].index, objects[i].ref, err)
				s.state.mu.Lock()
				s.state.failed[objects[i].ref] = err
				s.state.mu.Unlock()
			}
		})
		if err := joined(errs); err != nil {
			return err
		}
	}
	return nil
}

// one applies one object.
func (s *session) one(ctx context.Context, o *wanted) error {
	if o.err != nil {
		return o.err
	}
	err := s.decide(ctx, o)
	if s.owner != nil && apierrors.IsForbidden(err) && strings.Contains(err.Error(), "blockOwnerDeletion") {
		return fmt.Errorf("%w: %s", err, kube.Grant(s.set.Owner.Namespace, s.blocking()))
	}
	err = kube.ExplainEscalation(err, o.namespace, o.resource, o.name, o.member.Object)
	return explain(err, o.resource, o.namespace, memberVerbs...)
}

// decide creates the object, changes it or adopts it, and decides again if another client was faster.
func (s *session) decide(ctx context.Context, o *wanted) error {
	current, known := s.members[o.ref]
	for attempt := 1; ; attempt++ {
		var err error
		if !known {
			if current, err = s.get(ctx, o.resource, o.namespace, o.name); err != nil {
				return err
			}
		}
		if o.version = ""; current != nil {
			o.version = current.ResourceVersion
		}
		o.kept = current != nil && isKept(current.Annotations)
		member := current != nil && (known || s.isMember(current) || s.isRelabelled(o.ref, current))
		switch {
		case s.shrinks && !member:
			return nil
		case current == nil:
			err = s.create(ctx, o)
		case current.DeletionTimestamp != nil:
			return errors.New("it is being deleted: the next run applies it again")
		case member:
			err = s.update(ctx, o, current)
		default:
			err = s.adopt(ctx, o, current)
		}
		if !isReplaced(err) || attempt == maxAttempts {
			return err
		}
		known = false
	}
}

// isRelabelled reports whether a member has lost its label, or has another set's, since this process has applied it: that is drift.
// After a move by a command nothing is known of what was applied.
func (s *session) isRelabelled(r ref, current *live) bool {
	s.state.mu.Lock()
	last, known := s.state.applied[r]
	s.state.mu.Unlock()
	return known && last.uid == current.UID && !s.isMember(current)
}

// isReplaced reports that the object of a uid is gone, and perhaps another one has its name.
func isReplaced(err error) bool {
	if apierrors.IsInvalid(err) {
		cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
		return found && cause.Field == "metadata.uid"
	}
	return apierrors.IsConflict(err) && !isOwned(err)
}

// isOwned reports that another manager owns a field.
func isOwned(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// create applies an object that does not exist. If it exists nevertheless, what was applied is removed again.
func (s *session) create(ctx context.Context, o *wanted) error {
	answer, created, err := s.send(ctx, o, "", false)
	switch {
	case err == nil && (created || s.meets(answer)):
		return nil
	case err == nil:
		if err := s.undo(ctx, o.ref, o.resource, answer); err != nil {
			return err
		}
		return s.exists(ctx, o, nil)
	case isOwned(err):
		return s.exists(ctx, o, nil)
	case answered(err):
		return err
	}
	// The response is lost. If the object is ours, the next run continues with it.
	current, failed := s.get(ctx, o.resource, o.namespace, o.name)
	if failed == nil && current != nil && s.isMember(current) && !s.created(current) {
		failed = s.undo(ctx, o.ref, o.resource, current)
	}
	return joined([]error{err, failed})
}

// exists returns the error for an object that another client has created.
func (s *session) exists(ctx context.Context, o *wanted, current *live) error {
	if current == nil {
		var err error
		if current, err = s.get(ctx, o.resource, o.namespace, o.name); err != nil {
			return err
		}
	}
	if current == nil {
		return errors.New("it existed for a moment: the next run creates it")
	}
	return fmt.Errorf("it exists, with the managers %s, and is not of this set: set \"force: true\" to adopt it",
		cmp.Or(changers(current, s.manager), "unknown"))
}

// undo removes what was applied to an object of another client.
func (s *session) undo(ctx context.Context, r ref, res kube.Resource, current *live) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": res.GroupVersion().String(), "kind": res.Kind, "metadata": map[string]any{"name": r.name, "namespace": r.namespace,
			"uid": current.UID},
	})
	if err != nil {
		return err
	}
	_, _, err = s.patchApply(ctx, res, r.namespace, r.name, body, true)
	if err != nil && !isReplaced(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot remove the fields that were applied to %s, which another client has created: %w", r, err)
	}
	s.log.Warn("Another client has created an object at the same time, it is not changed", "object", r.String())
	return nil
}

// update applies a member, unless it is what was applied last.
func (s *session) update(ctx context.Context, o *wanted, current *live) error {
	s.state.mu.Lock()
	last, known := s.state.applied[o.ref]
	s.state.mu.Unlock()
	known = known && last.uid == current.UID
	if known && bytes.Equal(last.manifest, s.manifest(o)) && last.fieldsHash == s.fieldsHash(current) {
		return nil
	}
	_, _, err := s.send(ctx, o, current.UID, s.set.Force)
	if isOwned(err) && known {
		// Another client has taken fields that this process has applied: they are taken back, and only they.
		if _, _, err := s.patchApply(ctx, o.resource, o.namespace, o.name, pinned(last.manifest, current.UID, ""), true); err != nil {
			return err
		}
		_, _, err = s.send(ctx, o, current.UID, s.set.Force)
	}
	return ownedHint(err)
}

func ownedHint(err error) error {
	if isOwned(err) {
		return fmt.Errorf("%w: set \"force: true\" to take the fields", err)
	}
	return err
}

// adopt makes an existing object a member.
func (s *session) adopt(ctx context.Context, o *wanted, current *live) error {
	owner := types.UID("")
	if s.owner != nil {
		owner = s.owner.UID
	}
	if reason := s.foreign(current, owner); reason != "" {
		return errors.New(reason)
	}
	if !s.set.Force {
		return s.exists(ctx, o, current)
	}
	s.log.Info("An existing object is adopted", "object", o.ref.String())
	_, _, err := s.send(ctx, o, current.UID, s.set.Force)
	return ownedHint(err)
}

// send applies an object and stores what came of it. An empty uid means that the object does not exist.
func (s *session) send(ctx context.Context, o *wanted, uid types.UID, force bool) (answer *live, created bool, err error) {
	manifest := s.manifest(o)
	version := ""
	var written func(before, after string)
	if !s.opts.DryRun {
		_, written = effect.Own(ctx, o.resource.Group, o.resource.Resource, o.namespace, o.name)
	}
	if written != nil && uid != "" {
		version = o.version // an answer without effect must not belong to another change
	}
	answer, created, err = s.patchApply(ctx, o.resource, o.namespace, o.name, pinned(manifest, uid, version), force)
	if written != nil && err == nil {
		written(version, answer.ResourceVersion)
	} else if written != nil {
		written("", "")
	}
	ours := err == nil && (created || uid != "" || s.meets(answer))
	if ours && o.kept != isKept(answer.Annotations) { // the annotation has come or gone since the object was read, or with this manifest
		o.kept = !o.kept
		if again := s.manifest(o); !bytes.Equal(again, manifest) {
			manifest = again
			answer, _, err = s.patchApply(ctx, o.resource, o.namespace, o.name, pinned(manifest, answer.UID, ""), force)
		}
	}
	if err == nil && ours && !s.opts.DryRun {
		s.state.mu.Lock()
		s.state.applied[o.ref] = s.applied(manifest, answer)
		s.state.mu.Unlock()
	}
	return answer, created, err
}

// metadataOnly is the media type of requests whose answers are metadata. Custom API servers may not support it.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// patchApply sends a server-side apply and returns the metadata of the object.
func (s *session) patchApply(ctx context.Context, res kube.Resource, namespace, name string, manifest []byte,
	force bool) (*live, bool, error) {
	req := s.write(s.opts.Client.Patch(types.ApplyPatchType).AbsPath(append(res.Path(namespace), name)...)).SetHeader("Accept", metadataOnly)
	if force {
		req = req.Param("force", "true")
	}
	var code int
	result := req.Body(manifest).Do(ctx).StatusCode(&code)
	if err := s.notice(result.Error()); err != nil {
		return nil, false, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, false, err
	}
	var answer live
	if err := decode(text, &answer); err != nil {
		return nil, false, err
	}
	s.reportAnswer(ctx, res, namespace, name, text, manifest)
	return &answer, code == http.StatusCreated, nil
}

// decode reads an answer of the API server.
func decode(text []byte, into any) error {
	if err := jsonv2.Unmarshal(text, into, jsonv2.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true)); err != nil {
		return fmt.Errorf("cannot read the answer of the API server: %w", err)
	}
	return nil
}

// write completes a request that writes.
func (s *session) write(req *rest.Request) *rest.Request {
	req = req.Param("fieldManager", s.manager)
	if s.opts.DryRun {
		req = req.Param("dryRun", "All")
	}
	return req
}

// get returns the metadata of an object, or nil.
func (s *session) get(ctx context.Context, res kube.Resource, namespace, name string) (*live, error) {
	text, err := kube.Send(ctx, s.opts.Client.Get().AbsPath(append(res.Path(namespace), name)...).SetHeader("Accept", metadataOnly))
	if apierrors.IsNotFound(s.notice(err)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found live
	if err := decode(text, &found); err != nil {
		return nil, err
	}
	return &found, nil
}

// notice has the next Sync look again where a kind is served, after a request to where it is no longer served.
func (a *Applier) notice(err error) error {
	if kube.IsUnserved(err) {
		a.opts.Resolver.Forget()
	}
	return err
}

// list returns the metadata of the objects that a selector of labels selects.
func (a *Applier) list(ctx context.Context, res kube.Resource, namespace, selector string) (items []live, err error) {
	next := ""
	for {
		req := a.opts.Client.Get().AbsPath(res.Path(namespace)...).Param("labelSelector", selector).Param("limit", "500").
			SetHeader("Accept", strings.ReplaceAll(metadataOnly, "PartialObjectMetadata", "PartialObjectMetadataList"))
		if next != "" {
			req = req.Param("continue", next)
		}
		text, err := kube.Send(ctx, req)
		if err != nil {
			return nil, a.notice(err)
		}
		var list metav1.PartialObjectMetadataList
		if err := decode(text, &list); err != nil {
			return nil, err
		}
		items = append(items, list.Items...)
		if next = list.Continue; next == "" {
			return items, nil
		}
	}
}

// crdTimeout limits the wait of a Sync for the kind of a CRD.
const crdTimeout = time.Minute

// resolveDefined finds the resources of kinds that CRDs of the set define. The API server serves a kind some time after its CRD is
// established.
func (s *session) resolveDefined(ctx context.Context, objects []*wanted) {
	ctx, cancel := context.WithTimeout(ctx, crdTimeout)
	defer cancel()
	pause := 20 * time.Millisecond
	for _, o := range objects {
		for o.err == nil && !o.served() {
			res, err := s.opts.Resolver.Resolve(ctx, o.member.APIVersion, o.member.Kind)
			switch {
			case err == nil:
				o.resource = res
				s.resources[o.GroupKind] = res
				continue
			case ctx.Err() != nil:
				o.err = fmt.Errorf("its kind is not served within %s, check the conditions of its CRD: %w", crdTimeout, err)
				continue
			case s.opts.DryRun, !errors.As(err, new(*kube.UnknownKindError)):
				o.err = err
				continue
			}
			kube.Wait(ctx, pause, nil)
			pause = min(2*pause, time.Second)
		}
	}
}
