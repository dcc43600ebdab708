package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// read returns the object, or nil if there is none.
func (k *keeper) read(ctx context.Context) (*configuration, error) {
	text, err := k.List(ctx)
	if err != nil || text == nil {
		return nil, err
	}
	live := &configuration{}
	if err := json.Unmarshal(text, live); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", k.Subject(), err)
	}
	// Items of lists have no type.
	live.TypeMeta = metav1.TypeMeta{APIVersion: group + "/v1", Kind: k.kind.name}
	return live, nil
}

// put creates or updates the object, or does that as a dry run.
func (k *keeper) put(ctx context.Context, live, want *configuration, dryRun ...string) error {
	request := k.Client.Put().AbsPath(k.Path...).Suffix(k.Name)
	if live == nil {
		request = k.Client.Post().AbsPath(k.Path...)
	}
	for _, value := range dryRun {
		request.Param("dryRun", value)
	}
	_, err := kube.SendJSON(ctx, request.MaxRetries(0), want) // Run retries, and logs the reason
	if live == nil && err != nil {
		return &creationError{err}
	}
	return err
}

// delete deletes the object, unless it has changed since it was read.
func (k *keeper) delete(ctx context.Context, live *configuration) error {
	_, err := kube.SendJSON(ctx, k.Client.Delete().AbsPath(k.Path...).Suffix(k.Name).MaxRetries(0), metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
	})
	return err
}

// creationError is the error of a creation.
type creationError struct{ error }

func (e *creationError) Unwrap() error { return e.error }

// explain adds the missing RBAC rule to an error.
func (k *keeper) explain(err error) error {
	var creation *creationError
	switch {
	case errors.As(err, &creation) && apierrors.IsForbidden(err):
		return fmt.Errorf("there is no %s %q, and no permission to create it: create it without webhooks, as 'shell-operator rbac' prints it, "+
			"and the chart with webhooks.%s: %w", k.kind.name, k.Name, k.kind.value, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no permission for %s: %s: %w", k.kind.resource, k.rule(), err)
	}
	return fmt.Errorf("cannot reconcile %s %q: %w", k.kind.name, k.Name, err)
}

// rule is the RBAC rule that a keeper needs for its object.
func (k *keeper) rule() string {
	return kube.Grant("", kube.Rule{Group: group, Resource: k.kind.resource, Names: []string{k.Name},
		Verbs: []string{"list", "watch", "update"}})
}
