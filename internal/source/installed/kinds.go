// Package installed finds out which kinds are installed. A kind counts as not installed only if that is beyond doubt: an empty snapshot may
// be an order to prune.
package installed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// A kind is not installed if it is missing in two reads at least Doubtful apart, without an error in between. A kind that this process has
// found is gone when its CRD is, or when it is missing for goneAfter and its CRD cannot be read or is being deleted; not while its group
// serves another version.
const (
	Doubtful  = 10 * time.Second
	goneAfter = time.Minute
	// cached is the time for which a read serves other bindings and kinds.
	cached = time.Second
)

// Kind names a kind of the API server.
type Kind struct{ APIVersion, Kind string }

// Kinds reads which kinds the API server serves, for all optional bindings together.
type Kinds struct {
	client   rest.Interface
	resolver *kube.Resolver
	// turn has a token while a goroutine owns the fields below.
	turn chan struct{}
	seen map[Kind]*sighting
	// read is the time when the cache of the resolver was dropped.
	read time.Time
}

// sighting is the result of the last read of a kind.
type sighting struct {
	// resource is from the last read that has found the kind, elsewhere a version that the group serves instead.
	resource  kube.Resource
	elsewhere string
	err       error
	// at is the time of the read. The kind is missing since the time since, in all reads; zero if it is not missing.
	at, since time.Time
	// found: this process has found the kind, and it is not gone since. hasCRD: its CRD could be read then. gone: beyond doubt.
	found, hasCRD, gone bool
}

// ErrMissing reports that an optional kind is missing, and may be installed nevertheless.
var ErrMissing = &stream.MissingError{Kind: stream.NotServed, Text: "the kind is not installed"}

func New(client rest.Interface) *Kinds {
	return &Kinds{client: client, resolver: kube.NewResolver(client), turn: make(chan struct{}, 1), seen: map[Kind]*sighting{}}
}

// Find returns the resource of a kind. If the kind is not installed, only its version may be set: the group serves that. An error
// means that it is not known. Reads without the kind are repeated when they are older than an age; age 0 makes them prove nothing.
func (k *Kinds) Find(ctx context.Context, name Kind, age time.Duration) (res kube.Resource, is bool, err error) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	s := k.seen[name]
	if s == nil {
		s = &sighting{}
		k.seen[name] = s
	}
	if read := time.Since(s.at); read >= age || s.since.IsZero() && (s.err != nil || read >= cached) {
		k.look(ctx, name, s, age == 0)
	}
	switch {
	case ctx.Err() != nil:
		return res, false, ctx.Err()
	case s.err == nil:
		return s.resource, true, nil
	case s.since.IsZero():
		return res, false, s.err
	case !s.gone:
		if err := k.doubt(ctx, name, s); err != nil {
			return res, false, err
		}
		s.found, s.gone = false, true
	}
	res.Version = s.elsewhere
	return res, false, nil
}

func (k *Kinds) look(ctx context.Context, name Kind, s *sighting, again bool) {
	if again || time.Since(k.read) >= cached {
		k.resolver.Forget()
		k.read = time.Now()
	}
	found, err := k.resolver.Find(ctx, name.APIVersion, name.Kind, "list", "watch")
	unknown, elsewhere := (*kube.UnknownKindError)(nil), ""
	if errors.As(err, &unknown) {
		gv, _ := schema.ParseGroupVersion(name.APIVersion)
		other, failed := k.resolver.FindGroup(ctx, schema.GroupKind{Group: gv.Group, Kind: name.Kind})
		if err = cmp.Or(failed, err); other.Version != gv.Version {
			elsewhere = other.Version
		}
	}
	if ctx.Err() != nil {
		return
	}
	// If it was not read for a while, the kind may have come meanwhile.
	begins := again || time.Since(s.at) >= goneAfter || s.since.IsZero() || elsewhere != s.elsewhere
	s.at, s.err, s.elsewhere = time.Now(), err, elsewhere
	switch {
	case err == nil:
		_, failed := k.crd(ctx, found)
		s.resource, s.since, s.found, s.hasCRD, s.gone = found, time.Time{}, true, failed == nil, false
	case !errors.As(err, &unknown):
		s.since = time.Time{}
	case begins:
		s.since, s.gone = s.at, false
	}
}

// doubt returns why a kind that is missing may not be gone.
func (k *Kinds) doubt(ctx context.Context, name Kind, s *sighting) error {
	missing := s.at.Sub(s.since)
	switch {
	case !s.found && missing >= Doubtful:
		return nil
	case !s.found:
		return ErrMissing
	case s.elsewhere != "":
		return fmt.Errorf("the API server serves the kind %s in version %q, and no longer in %q: change apiVersion of the binding", name.Kind,
			s.elsewhere, name.APIVersion)
	}
	deleting, err := k.crd(ctx, s.resource)
	switch {
	case err == nil && !deleting:
		s.since = s.at
		return fmt.Errorf("the API server does not serve the kind %s in %q, but its CRD exists: is the version served, and the CRD established?",
			name.Kind, name.APIVersion)
	case s.hasCRD && apierrors.IsNotFound(err) && !kube.IsUnserved(err), missing >= goneAfter && (err == nil || stream.Refused(err)):
		return nil
	}
	return ErrMissing
}

// crd reports whether the CRD of a resource is being deleted.
func (k *Kinds) crd(ctx context.Context, of kube.Resource) (deleting bool, err error) {
	raw, err := kube.Send(ctx, k.client.Get().MaxRetries(0).
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", of.Resource+"."+of.Group))
	if err != nil {
		return false, err
	}
	o, err := stream.Read(raw, true)
	return err == nil && o.Terminating(), err
}
