package applyset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// prune removes the members that are not wanted, in the reverse order of the phases.
func (s *session) prune(ctx context.Context) error {
	for phase := phases - 1; phase >= 0; phase-- {
		var refs []ref
		for r, member := range s.members {
			if !s.wanted[r] && phaseOf(r.GroupKind) == phase && member.DeletionTimestamp == nil {
				refs = append(refs, r)
			}
		}
		slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.String(), b.String()) })
		errs := make([]error, len(refs))
		kube.Concurrently(len(refs), parallel, func(i int) {
			if err := s.remove(ctx, refs[i], s.members[refs[i]]); err != nil {
				err = explain(err, s.resources[refs[i].GroupKind], refs[i].namespace, memberVerbs...)
				errs[i] = fmt.Errorf("cannot prune %s: %w", refs[i], err)
			}
		})
		if err := joined(errs); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes or releases a member.
func (s *session) remove(ctx context.Context, r ref, current *live) error {
	res := s.resources[r.GroupKind]
	path := append(res.Path(r.namespace), r.name)
	return s.unlessReplaced(ctx, r, current, func(current *live) error {
		if s.keeps(r, current.Annotations) {
			err := s.release(ctx, r, res, path, current)
			if err == nil {
				s.released.Add(1)
			}
			return err
		}
		err := s.deleteObject(ctx, res, path, current)
		if err == nil {
			s.deleted.Add(1)
			s.log.Info("An object of a set is pruned", "object", r.String())
		}
		return err
	})
}

// unlessReplaced changes a member. When another client has changed it, it is read and changed again, if it is still a member.
func (s *session) unlessReplaced(ctx context.Context, r ref, current *live, change func(current *live) error) error {
	uid := current.UID
	for attempt := 1; ; attempt++ {
		err := change(current)
		changed := apierrors.IsConflict(err) || apierrors.IsInvalid(err)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case !changed || attempt == maxAttempts:
			return err
		}
		if current, err = s.get(ctx, s.resources[r.GroupKind], r.namespace, r.name); err != nil {
			return err
		}
		if current == nil || current.UID != uid || current.DeletionTimestamp != nil ||
			!s.isMember(current) && !(s.set.Restore && s.isRelabelled(r, current)) {
			return nil
		}
	}
}

// deleteObject deletes the object that was read, in this version only.
func (s *session) deleteObject(ctx context.Context, res kube.Resource, path []string, current *live) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion},
	}
	if s.opts.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	text, err := kube.SendJSON(ctx, s.opts.Client.Delete().AbsPath(path...), options)
	if err == nil {
		s.reportAnswer(ctx, res, current.Namespace, current.Name, text, nil)
	}
	return err
}

// reportAnswer reports to the run what was answered to a request that changed an object.
func (s *session) reportAnswer(ctx context.Context, res kube.Resource, namespace, name string, text, sent []byte) {
	if !s.opts.DryRun {
		effect.Report(ctx, effect.Answered{Group: res.Group, Resource: res.Resource, Kind: res.Kind, Namespace: namespace, Name: name,
			Text: text, Sent: sent})
	}
}

// step is one of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// labelPath is the path of the label of members in a JSON patch.
var labelPath = "/metadata/labels/" + strings.ReplaceAll(partOfLabel, "/", "~1")

// testsOf are the tests that an object is still the one that was read.
func testsOf(o *live) []step {
	return []step{{"test", "/metadata/uid", o.UID}, {"test", "/metadata/resourceVersion", o.ResourceVersion}}
}

// release makes an object that is not pruned independent of the set.
func (s *session) release(ctx context.Context, r ref, res kube.Resource, path []string, current *live) error {
	steps := testsOf(current)
	if current.Labels[partOfLabel] == s.id {
		steps = append(steps, step{Op: "remove", Path: labelPath})
	}
	if at := slices.IndexFunc(current.OwnerReferences, s.isOwner); at >= 0 {
		steps = append(steps, step{Op: "remove", Path: fmt.Sprintf("/metadata/ownerReferences/%d", at)})
	}
	if at := entryOf(current, s.manager); at >= 0 && len(current.ManagedFields) > 1 {
		steps = append(steps, step{Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at)})
	} else if at >= 0 { // the API server ignores an empty list
		steps = append(steps, step{"replace", "/metadata/managedFields", []struct{}{{}}})
	}
	if _, err := s.patchJSON(ctx, res, path, steps); err != nil {
		return err
	}
	s.log.Info("An object of a set is released and not pruned", "object", r.String())
	return nil
}

// patchJSON returns the metadata of the object, with all others.
func (s *session) patchJSON(ctx context.Context, res kube.Resource, path []string, steps []step) (*live, error) {
	body, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	text, err := kube.Send(ctx, s.write(s.opts.Client.Patch(types.JSONPatchType).AbsPath(path...)).
		SetHeader("Accept", metadataOnly).Body(body))
	if err != nil {
		return nil, err
	}
	answer := &live{}
	if err = decode(text, answer); err == nil {
		s.reportAnswer(ctx, res, answer.Namespace, answer.Name, text, nil)
	}
	return answer, err
}
