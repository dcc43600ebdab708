package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// ErrSetBack reports an API server whose state is older than what this process has received: etcd was restored from a backup. Its
// resource versions begin again, and each version that the process remembers names something else.
var ErrSetBack = errors.New("the API server was set back to an older state")

// builtIn are the groups with a dot that the API server stores itself. Those without one are all built in.
var builtIn = strings.Fields("admissionregistration apiextensions apiregistration certificates coordination discovery events " +
	"flowcontrol.apiserver networking node rbac.authorization resource scheduling storage")

// disconnected notes a request that was not answered: an API server that was set back may answer the next watch.
func (s *stream) disconnected(err error) {
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = true
	}
}

// reconnected compares the API server with what the stream has received, after a connection error.
func (s *stream) reconnected(ctx context.Context) {
	s.mu.Lock()
	lost, newest := s.lost, s.newest
	s.lost = false
	s.mu.Unlock()
	if lost && newest > 0 {
		s.running.Go(func() { s.compare(ctx, newest) })
	}
}

// compare calls setBack if two consistent lists, 1 s apart, are older than a version that the stream has received.
func (s *stream) compare(ctx context.Context, newest uint64) {
	if !s.stored(ctx) {
		return
	}
	none := func() []*subscription { return nil }
	for lower := 0; ctx.Err() == nil; {
		list, err := s.page(ctx, metav1.ListOptions{Limit: 1}, none, none)
		switch status := apierrors.APIStatus(nil); {
		case errors.As(err, &status) && (status.Status().Code >= 500 || status.Status().Code == 429): // it has just started
			lower--
		case err != nil: // as long as it does not answer, nothing is known
			s.disconnected(err)
			return
		case version(list.ResourceVersion) == 0, version(list.ResourceVersion) >= newest:
			return
		}
		if lower++; lower == 2 {
			s.setBack(fmt.Errorf("%w: a list of %s has version %s, and %d was received before", ErrSetBack, s.scope, list.ResourceVersion, newest))
			return
		}
		kube.Wait(ctx, time.Second, nil)
	}
}

// stored reports whether the API server is known to store the kind itself. Versions of an aggregated API server are its own.
func (s *stream) stored(ctx context.Context) bool {
	group, ofKubernetes := strings.CutSuffix(s.scope.Group, ".k8s.io")
	if !strings.Contains(s.scope.Group, ".") || ofKubernetes && slices.Contains(builtIn, group) {
		return true
	}
	crd := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + s.scope.Resource + "." + s.scope.Group
	return s.client.Get().AbsPath(crd).Do(ctx).Error() == nil
}
