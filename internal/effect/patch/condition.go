package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// condition sets a condition of the object. The patch applies to the object that was read and to no other version of it: entries of other
// writers are kept, whether the API server merges the list or not.
func (r *request) condition(ctx context.Context) error {
	var uid string
	var generation int64
	if r.run.Identify != nil {
		uid, generation = r.run.Identify(r.resource.Group, r.resource.Kind, r.patch.Namespace, r.patch.Name)
	}
	var known []byte
	var after string
	// before is the object of the last attempt, which has failed.
	var before conditioned
	var failed error
	var written func(before, after string)
	if r.run.Follow != nil {
		before.Metadata.UID = uid
		if known, written = r.run.Follow(r.patch); written != nil {
			defer func() { written(before.Metadata.ResourceVersion, after) }()
		}
	}
	return r.retry(func() error {
		live, err := r.readConditions(ctx, known)
		known = nil
		switch {
		case err != nil:
			return r.forgive(err)
		case before.Metadata.UID != "" && live.Metadata.UID != before.Metadata.UID:
			return r.forgive(apierrors.NewNotFound(r.resource.GroupResource(), r.patch.Name)) // another object has its name
		case written != nil && live.Metadata.DeletionTimestamp != "":
			return nil
		case failed != nil && live.Metadata.ResourceVersion == before.Metadata.ResourceVersion:
			if apierrors.IsNotFound(failed) {
				return fmt.Errorf("%s has no subresource status: add \"subresources: {status: {}}\" to the version in its CRD", r.resource.Kind)
			}
			return failed // the object has not changed, so that is no conflict
		}
		own, ofHook := r.own(ctx)
		want := *r.patch.Condition
		if want.ObservedGeneration == 0 {
			want.ObservedGeneration = live.observed(uid, generation, own)
		}
		body, err := live.patch(want, r.Now())
		if body != nil {
			before = live
			after, failed = r.patchStatus(ctx, body)
		}
		if ofHook != nil {
			ofHook(live.Metadata.ResourceVersion, after)
		}
		if err != nil || body == nil {
			return err
		}
		if apierrors.IsInvalid(failed) || apierrors.IsNotFound(failed) { // a failed test is "invalid", too
			return apierrors.NewConflict(r.resource.GroupResource(), r.patch.Name, errModified)
		}
		return failed
	})
}

// patchStatus returns the new resource version of the object, nothing in a dry run.
func (r *request) patchStatus(ctx context.Context, body []byte) (version string, err error) {
	text, err := kube.Send(ctx, r.to(r.Client.Patch(types.JSONPatchType), r.object("status")).SetHeader("Accept", metadataOnly).Body(body))
	var answer conditioned
	if err != nil || r.DryRun || json.Unmarshal(text, &answer) != nil {
		return "", err
	}
	r.report(ctx, text)
	return answer.Metadata.ResourceVersion, nil
}

// errModified is the cause of a conflict in the words of the API server.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// readConditions reads the object, unless its text is known.
func (r *request) readConditions(ctx context.Context, text []byte) (live conditioned, err error) {
	if text == nil {
		if text, err = kube.Send(ctx, r.Client.Get().AbsPath(r.object("")...)); err != nil {
			return live, err
		}
	}
	if err := json.Unmarshal(text, &live); err != nil {
		return live, errors.New("status.conditions of the object is not a list of conditions")
	}
	return live, nil
}

// conditioned is an object as far as its conditions need it.
type conditioned struct {
	Metadata struct {
		UID, ResourceVersion, DeletionTimestamp string
		Generation                              int64
	}
	Status *struct {
		// Conditions is nil if the field is missing.
		Conditions []effect.Condition
	}
}

// observed is the generation that the hook has seen, if its context has this one of an object with this uid: that, unless all changes since
// are its own, which cause no run in which it would see them.
func (c *conditioned) observed(uid string, inContext int64, own effect.Known) int64 {
	seen := own.Generation > 0 && inContext >= own.Generation && own.Version == c.Metadata.ResourceVersion
	if inContext == 0 || uid != "" && uid != c.Metadata.UID || seen {
		return c.Metadata.Generation
	}
	return inContext
}

// step is one step of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch returns the JSON patch that sets a condition, or nil if only the time would change.
func (c *conditioned) patch(want effect.Condition, now time.Time) ([]byte, error) {
	want.LastTransitionTime = now.UTC().Format(time.RFC3339)
	set := step{"add", "/status", map[string]any{"conditions": []effect.Condition{want}}}
	if c.Status != nil {
		set = step{"add", "/status/conditions", []effect.Condition{want}}
		if c.Status.Conditions != nil {
			set = step{"add", "/status/conditions/-", want}
		}
		for i, is := range c.Status.Conditions {
			if is.Type != want.Type {
				continue
			}
			if is.Status == want.Status && is.LastTransitionTime != "" {
				want.LastTransitionTime = is.LastTransitionTime
			}
			if is == want {
				return nil, nil
			}
			set = step{"replace", fmt.Sprintf("/status/conditions/%d", i), want}
			break
		}
	}
	return json.Marshal([]step{
		{"test", "/metadata/uid", c.Metadata.UID},
		{"test", "/metadata/resourceVersion", c.Metadata.ResourceVersion},
		set,
	})
}
