package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// An empty snapshot may be an order to prune, so an optional kind is not installed only when that is beyond doubt: in two reads at least
// doubtful apart, without an error in between. A kind that this process has found is gone when its CRD is, or when it is missing for
// goneAfter and its CRD cannot be read or is being deleted; not while its group serves another version.
const (
	doubtful  = 10 * time.Second
	goneAfter = time.Minute
	// readEvery is the interval of reads while a kind is not installed.
	readEvery = 30 * time.Second
	// cached is how long a read serves other bindings and kinds.
	cached = time.Second
)

type kindName struct{ apiVersion, kind string }

func (m *monitor) kind() kindName { return kindName{m.binding.APIVersion, m.binding.Kind} }

// kinds reads which kinds the API server serves, for all optional bindings together.
type kinds struct {
	client   rest.Interface
	resolver *kube.Resolver
	// turn has a token while a goroutine owns what follows.
	turn chan struct{}
	seen map[kindName]*sighting
	// read is when the cache of the resolver was dropped.
	read time.Time
}

// sighting is the result of the last read of a kind.
type sighting struct {
	// resource is from the last read that has found the kind, elsewhere a version that the group serves instead.
	resource  kube.Resource
	elsewhere string
	err       error
	// at is when it was read. Since then, and in all reads before it, the kind is missing; zero if it is not.
	at, since time.Time
	// found: this process has found the kind, and it is not gone since. hasCRD: its CRD could be read then. gone: beyond doubt.
	found, hasCRD, gone bool
}

// errMissing reports that an optional kind is missing, and that it is in doubt whether it is not installed.
var errMissing = &stream.MissingError{Kind: stream.NotServed, Text: "the kind is not installed"}

func newKinds(client rest.Interface) *kinds {
	return &kinds{client: client, resolver: kube.NewResolver(client), turn: make(chan struct{}, 1), seen: map[kindName]*sighting{}}
}

// installed returns the resource of a kind. If the kind is not installed, only its version may be set: the group serves that. An error
// means that it is not known. Reads without the kind are repeated when they are older than an age; age 0 makes them prove nothing.
func (k *kinds) installed(ctx context.Context, name kindName, age time.Duration) (res kube.Resource, is bool, err error) {
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

func (k *kinds) look(ctx context.Context, name kindName, s *sighting, again bool) {
	if again || time.Since(k.read) >= cached {
		k.resolver.Forget()
		k.read = time.Now()
	}
	found, err := k.resolver.Find(ctx, name.apiVersion, name.kind, "list", "watch")
	unknown, elsewhere := (*kube.UnknownKindError)(nil), ""
	if errors.As(err, &unknown) {
		gv, _ := schema.ParseGroupVersion(name.apiVersion)
		other, failed := k.resolver.FindGroup(ctx, schema.GroupKind{Group: gv.Group, Kind: name.kind})
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
func (k *kinds) doubt(ctx context.Context, name kindName, s *sighting) error {
	missing := s.at.Sub(s.since)
	switch {
	case !s.found && missing >= doubtful:
		return nil
	case !s.found:
		return errMissing
	case s.elsewhere != "":
		return fmt.Errorf("the API server serves the kind %s in version %q, and no longer in %q: change apiVersion of the binding", name.kind,
			s.elsewhere, name.apiVersion)
	}
	deleting, err := k.crd(ctx, s.resource)
	switch {
	case err == nil && !deleting:
		s.since = s.at
		return fmt.Errorf("the API server does not serve the kind %s in %q, but its CRD exists: is the version served, and the CRD established?",
			name.kind, name.apiVersion)
	case s.hasCRD && apierrors.IsNotFound(err) && !kube.IsUnserved(err), missing >= goneAfter && (err == nil || refused(err)):
		return nil
	}
	return errMissing
}

// crd reports whether the CRD of a resource is being deleted.
func (k *kinds) crd(ctx context.Context, of kube.Resource) (deleting bool, err error) {
	raw, err := kube.Send(ctx, k.client.Get().MaxRetries(0).
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", of.Resource+"."+of.Group))
	if err != nil {
		return false, err
	}
	o, err := stream.Read(raw, true)
	return err == nil && o.Terminating(), err
}

// following is the resource that a binding has streams of, and how. All its subscriptions descend from root, which has no stream.
type following struct {
	resource kube.Resource
	plan     plan
	root     *stream.Subscription
}

// attend lets the streams of an optional binding come and go with its kind, until the binding is disabled.
func (w *Watcher) attend(ctx context.Context, m *monitor) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	var has following // nothing without the kind
	failed := func(err error) { m.complain(m.at() == filling, err) }
	kube.Wake(m.doubted)
	for every, age := time.Duration(0), doubtful; kube.Wait(ctx, every, m.doubted); {
		var next following
		var is, same bool
		err := w.retry(ctx, m.address, failed, func() (err error) {
			oldest := age
			if m.wrote.Swap(false) {
				oldest = 0
			}
			next.resource, is, err = w.kinds.installed(ctx, m.kind(), oldest)
			same = is && has.root != nil && next.resource.GroupVersionResource == has.resource.GroupVersionResource &&
				next.resource.Namespaced == has.resource.Namespaced
			if err == nil && is && !same {
				next.plan, err = w.plan(ctx, m, next.resource)
			}
			return err
		})
		log := m.log.With("kind", m.binding.Kind, "apiVersion", m.binding.APIVersion)
		switch {
		case err != nil:
			return
		case same:
		case is && has.root != nil && reflect.DeepEqual(next.plan, has.plan): // another scope with the same streams
			m.setResource(next.resource)
			has.resource = next.resource
		case is:
			if m.at() != filling {
				log.Info("The kind of an optional binding is installed now", "resource", next.resource.Resource)
			}
			next.root = w.follow(m, next.resource, next.plan, has.root)
			has = next
			w.warnOfMissing(m)
		case has.root != nil:
			log.Info("The kind of an optional binding is gone: its snapshot is empty until it is installed again")
			w.abandon(m, has.root)
			has = following{}
		case m.at() == filling:
			if next.resource.Version != "" {
				log = log.With("served", next.resource.Version, "hint", "change apiVersion of the binding")
			}
			log.Info("The kind of an optional binding is not installed: its snapshot is empty until it is")
			m.update(m.complete)
		}
		every, age = 0, doubtful
		if !m.watches() { // no request notices that the kind comes or goes
			every, age = readEvery, readEvery/2
		}
	}
}

// proves begins a read of a kind that counts as not installed if an answer is about an object of it.
func (m *monitor) proves(a effect.Answered) {
	if !m.binding.Optional {
		return
	}
	kind, gv := m.binding.Kind, schema.FromAPIVersionAndKind(m.binding.APIVersion, "")
	if gv.Group != a.Group || !strings.EqualFold(kind, a.Kind) && !strings.EqualFold(kind, a.Resource) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.subs) == 0 {
		m.wrote.Store(true)
		kube.Wake(m.doubted)
	}
}
