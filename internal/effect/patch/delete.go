package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// delete returns the uid of the object that it deletes, or "" if the object is gone.
func (r *request) delete(ctx context.Context, propagation metav1.DeletionPropagation) (types.UID, error) {
	options := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &propagation,
	}
	if r.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	text, err := kube.SendJSON(ctx, r.Client.Delete().AbsPath(r.object("")...), options)
	if apierrors.IsNotFound(err) && !kube.IsUnserved(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r.report(ctx, text)
	// The response is the object while finalizers hold it, or a status that names it once it is gone.
	var answer struct {
		Metadata struct{ UID types.UID }
		Details  struct{ UID types.UID }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	if answer.Metadata.UID != "" {
		return answer.Metadata.UID, nil
	}
	return "", nil
}

// reportGone reports to the run that the object of a uid is gone.
func (r *request) reportGone(ctx context.Context, uid types.UID) {
	a := r.answered()
	a.Gone = string(uid)
	effect.Report(ctx, a)
}

// deletePause is the longest time between two reads of an object that is being deleted. The first reads follow quickly:
// most objects have no finalizers.
const deletePause = time.Second

// lastRead limits the last read, including the wait for the rate limiter.
const lastRead = 30 * time.Second

// deleteAndWait returns when the object is gone, or another object has its name.
//
// It polls. A watch would need one more permission, which the Roles of existing installations do not grant, and so the
// polling as well.
func (r *request) deleteAndWait(ctx context.Context) error {
	uid, err := r.delete(ctx, metav1.DeletePropagationForeground)
	if err != nil || uid == "" || r.DryRun {
		return err
	}
	expired := time.After(r.DeleteTimeout)
	// The client's rate limiter rejects a read that it would begin after the deadline, long before it.
	reads, cancel := context.WithTimeout(ctx, r.DeleteTimeout+lastRead)
	defer cancel()
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	pause := 10 * time.Millisecond
	var finalizers []string
	for {
		var live metav1.PartialObjectMetadata
		text, err := kube.Send(reads, r.Client.Get().AbsPath(r.object("")...))
		switch {
		case apierrors.IsNotFound(err):
			r.reportGone(ctx, uid)
			return nil
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("cannot read whether it is gone: %w", err)
		case err == nil:
			if err := json.Unmarshal(text, &live); err != nil {
				return err
			}
			if live.UID != uid {
				r.reportGone(ctx, uid)
				return nil
			}
			finalizers = live.Finalizers
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-expired:
			return fmt.Errorf("it is still there after %s, with finalizers %q: check the controllers that remove them, or use DeleteInBackground",
				r.DeleteTimeout, finalizers)
		case <-progress.C:
			r.log.Info("Wait for the object to be gone", "finalizers", finalizers)
		case <-time.After(pause):
			pause = min(2*pause, deletePause)
		}
	}
}
