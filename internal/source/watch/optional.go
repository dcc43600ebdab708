package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// An empty snapshot may be an order to prune, so an optional kind is not installed only when that is beyond doubt: in two reads at least
// doubtful apart, without an error in between. A kind that this process has watched is gone when its CRD is, or when it is missing
// for goneAfter.
const (
	doubtful  = 10 * time.Second
	goneAfter = time.Minute
	// readEvery is the interval of reads while a kind is not installed.
	readEvery = 30 * time.Second
)

type kindName struct{ apiVersion, kind string }

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

// sighting is what is known of a kind.
type sighting struct {
	resource kube.Resource
	err      error
	// at is when it was read last. Since then, and in all reads before it, the kind is missing; zero if it is not.
	at, since time.Time
	// watched: this process has watched the kind, and it is not gone since. crd is the name of its CRD, if that could be read.
	watched bool
	crd     string
	// gone: it is not installed, beyond doubt.
	gone bool
}

// errMissing reports that an optional kind is missing, and that it is in doubt whether it is not installed.
var errMissing = &missingError{notServed, "the kind is not installed"}

func newKinds(client rest.Interface) *kinds {
	return &kinds{client: client, resolver: kube.NewResolver(client), turn: make(chan struct{}, 1), seen: map[kindName]*sighting{}}
}

// with calls do with what is known of a kind.
func (k *kinds) with(ctx context.Context, name kindName, do func(*sighting)) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.turn }()
	if k.seen[name] == nil {
		k.seen[name] = &sighting{}
	}
	do(k.seen[name])
	return ctx.Err()
}

// installed returns the resource of a kind, or that it is not installed. It reads again what is older than an age. An error, such
// as errMissing, means that this is not known.
func (k *kinds) installed(ctx context.Context, name kindName, age time.Duration) (res kube.Resource, is bool, err error) {
	ended := k.with(ctx, name, func(s *sighting) {
		if s.err != nil && s.since.IsZero() || time.Since(s.at) >= age {
			k.look(ctx, name, s)
		}
		missing := s.at.Sub(s.since)
		switch {
		case s.err == nil:
			res, is, s.gone = s.resource, true, false
		case s.since.IsZero():
			err = s.err
		case s.gone, !s.watched && missing >= doubtful, missing >= goneAfter, s.crd != "" && k.crdIsGone(ctx, s.crd):
			s.watched, s.crd, s.gone = false, "", true
		default:
			err = errMissing
		}
	})
	if ended != nil {
		err = ended
	}
	return res, is, err
}

func (k *kinds) look(ctx context.Context, name kindName, s *sighting) {
	if time.Since(k.read) >= time.Second { // kinds of one group version are read in one request
		k.resolver.Forget()
		k.read = time.Now()
	}
	res, err := k.resolver.Find(ctx, name.apiVersion, name.kind, "list", "watch")
	if ctx.Err() != nil {
		return
	}
	forgotten := time.Since(s.at) >= goneAfter // in a pause of the hook: the kind may have come meanwhile
	s.at, s.resource, s.err = time.Now(), res, err
	switch {
	case !errors.As(err, new(*kube.UnknownKindError)):
		s.since = time.Time{}
	case s.since.IsZero(), forgotten:
		s.since, s.gone = s.at, false
	}
}

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// watches records that a kind is watched.
func (k *kinds) watches(ctx context.Context, name kindName, res kube.Resource) {
	_ = k.with(ctx, name, func(s *sighting) {
		if s.watched {
			return
		}
		s.watched = true
		crd := res.Resource + "." + res.Group
		if _, err := kube.Send(ctx, k.client.Get().AbsPath(crds, crd).MaxRetries(0)); err == nil {
			s.crd = crd
		}
	})
}

func (k *kinds) crdIsGone(ctx context.Context, crd string) bool {
	_, err := kube.Send(ctx, k.client.Get().AbsPath(crds, crd).MaxRetries(0))
	return apierrors.IsNotFound(err) && !kube.IsUnserved(err)
}

// errVanished ends the wait for the initial list of a kind that is gone.
var errVanished = errors.New("the kind is gone")

// enableOptional enables a binding as soon as it is known whether its kind is installed. If not, the binding has an empty snapshot, and is
// enabled when the kind comes.
func (w *Watcher) enableOptional(ctx context.Context, h *hook.Hook, index int, stuck func(error)) error {
	a, k := address{h, index}, &h.Kubernetes[index]
	for {
		var res kube.Resource
		var is bool
		err := w.retry(ctx, a, stuck, func() (err error) {
			res, is, err = w.kinds.installed(ctx, kindName{k.APIVersion, k.Kind}, doubtful)
			return err
		})
		switch {
		case err != nil:
			return err
		case !is:
			w.opts.Log.Info("The kind of an optional binding is not installed: its snapshot is empty until it is", "hook", h.Name, "binding", k.Name,
				"kind", k.Kind, "apiVersion", k.APIVersion)
			w.leaveOut(ctx, a)
			w.spawn(func(run context.Context) { w.enableLater(ctx, run, a) })
			return nil
		}
		if err = w.enableServed(ctx, h, index, stuck, &res); !errors.Is(err, errVanished) {
			return err
		}
	}
}

// leaveOut notes that the kind of a binding is not installed, until ctx ends, and ends its monitor.
func (w *Watcher) leaveOut(ctx context.Context, a address) {
	w.mu.Lock()
	w.absent[a] = ctx
	m := w.monitors[a]
	w.mu.Unlock()
	if m != nil {
		w.end(m)
	}
}

// enableLater enables a binding when its kind comes, unless ctx, of the hook, or run, of the Watcher, ends before.
func (w *Watcher) enableLater(ctx, run context.Context, a address) {
	hookEnds := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.absent[a] == hookEnds {
			delete(w.absent, a)
		}
	}()
	k := &a.hook.Kubernetes[a.index]
	for kube.Wait(ctx, readEvery, nil) {
		res, is, _ := w.kinds.installed(ctx, kindName{k.APIVersion, k.Kind}, readEvery/2)
		if !is {
			continue
		}
		// Another trouble, such as a permission, is reported as for a binding which is enabled at the start.
		stuck := func(err error) {
			w.opts.Log.Error("Enable Kubernetes binding for hook failed. Will retry after delay.", "hook", a.hook.Name, "kubernetes", k.Name,
				"error", err.Error())
		}
		if err := w.enableServed(hookEnds, a.hook, a.index, stuck, &res); err != nil {
			continue
		}
		w.mu.Lock()
		delete(w.absent, a)
		w.mu.Unlock()
		w.opts.Log.Info("The kind of an optional binding is installed now", "hook", a.hook.Name, "binding", k.Name, "kind", k.Kind)
		w.opts.Installed(a.hook, a.index, true)
		return
	}
}

// doubter returns a function that begins to find out whether the kind of an optional binding is gone, unless that is being done.
func (w *Watcher) doubter(ctx context.Context, m *monitor) func() {
	busy := make(chan struct{}, 1)
	return func() {
		select {
		case busy <- struct{}{}:
			w.spawn(func(run context.Context) {
				w.doubt(ctx, run, m)
				<-busy
			})
		default:
		}
	}
}

// doubt waits until it is known whether the kind of an optional binding is gone, and then delivers that.
func (w *Watcher) doubt(ctx, run context.Context, m *monitor) {
	inBoth, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	name := kindName{m.binding.APIVersion, m.binding.Kind}
	for {
		_, is, err := w.kinds.installed(inBoth, name, doubtful)
		switch {
		case is || inBoth.Err() != nil || m.at() == ended:
			return // the stream lists again by itself
		case err == nil:
			w.vanish(ctx, m)
			return
		}
		if !kube.Wait(inBoth, doubtful, nil) {
			return
		}
	}
}

// vanish delivers Deleted for all objects of a binding whose kind is gone, and ends its monitor.
func (w *Watcher) vanish(ctx context.Context, m *monitor) {
	select {
	case <-m.filled:
	default:
		m.vanished(errVanished) // enableOptional does the rest
		return
	}
	m.log.Info("The kind of an optional binding is gone: its snapshot is empty until it is installed again", "kind", m.binding.Kind,
		"apiVersion", m.binding.APIVersion)
	var subs []*subscription
	m.update(func() {
		subs = slices.Collect(maps.Keys(m.subs))
		clear(m.subs)
		clear(m.awaited)
		m.dropAll(func(string, item) bool { return true })
	})
	for _, sub := range subs {
		w.leave(sub)
	}
	w.leaveOut(ctx, m.address)
	w.opts.Installed(m.hook, m.index, false)
	w.spawn(func(run context.Context) { w.enableLater(ctx, run, m.address) })
}

// Installed reports whether the kind of a binding is installed, as far as the binding is optional.
func (w *Watcher) Installed(h *hook.Hook, index int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.absent[address{h, index}] == nil
}
