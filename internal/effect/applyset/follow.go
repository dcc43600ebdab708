package applyset

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// scope is the range of one watch: the members of all sets of a kind, in one namespace or in all.
type scope struct {
	kube.Resource
	namespace string
}

func (s scope) kind() schema.GroupKind { return schema.GroupKind{Group: s.Group, Kind: s.Kind} }

// follower is the watch of a scope. It keeps no objects: each one is compared with what was applied. It is no watch of client-go/metadata,
// which receives managed fields as protobuf: their text differs from the JSON in answers to applies where values have <, > or &.
type follower struct {
	*Applier
	scope
	// users are the sets that it is for; without one it ends. stop ends it, and is nil before Run has started it. Applier.mu guards both.
	users int
	stop  context.CancelFunc

	mu sync.Mutex
	// reached is the version up to which changes were delivered.
	reached uint64
}

func versionOf(text string) uint64 {
	v, _ := strconv.ParseUint(text, 10, 64)
	return v
}

// Run watches the members of sets and restores them, until ctx ends.
func (a *Applier) Run(ctx context.Context) {
	a.mu.Lock()
	a.drifted = workqueue.NewTypedDelayingQueue[driftKey]()
	a.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	defer a.drifted.ShutDown()
	for range parallelRestores {
		running.Go(func() { a.restoreAll(ctx) })
	}
	for {
		a.mu.Lock()
		for _, f := range a.unstarted {
			watching, stop := context.WithCancel(ctx)
			f.stop = stop
			running.Go(func() {
				defer stop()
				f.run(watching)
			})
		}
		a.unstarted = nil
		a.mu.Unlock()
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
	}
}

// follow watches the members of a set where they are, and nowhere else.
func (s *session) follow() {
	if s.opts.Watch == nil || s.opts.DryRun {
		return
	}
	s.state.mu.Lock()
	all := s.state.places
	s.state.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	scopes := map[scope]bool{}
	for kind, namespaces := range all {
		res, known := s.resources[kind]
		for at := range s.state.watched { // of a kind that the API server does not serve just now
			if at.kind() == kind && !known {
				scopes[at] = true
			}
		}
		if known {
			s.spread(scopes, res, namespaces)
		}
	}
	s.watchOnly(s.state, scopes)
}

// spread adds the scopes that cover a kind in namespaces. It requires mu.
func (a *Applier) spread(scopes map[scope]bool, res kube.Resource, namespaces []string) {
	if !a.narrow[res.GroupResource()] && res.GroupResource() != (schema.GroupResource{Resource: "secrets"}) {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		scopes[scope{res, namespace}] = true
	}
}

// watchOnly makes the scopes of a set the given ones. Run starts watches that are missing; those without a set end. It requires mu.
func (a *Applier) watchOnly(s *setState, scopes map[scope]bool) {
	for at := range scopes {
		f := a.followers[at]
		if f == nil {
			f = &follower{Applier: a, scope: at}
			a.followers[at] = f
			a.unstarted = append(a.unstarted, f)
			kube.Wake(a.wake)
		}
		if !s.watched[at] {
			f.users++
		}
	}
	for at := range s.watched {
		f := a.followers[at]
		if scopes[at] || f == nil {
			continue
		}
		if f.users--; f.users == 0 {
			a.endWatch(f)
		}
	}
	s.watched = scopes
}

// endWatch ends a watch. It requires mu.
func (a *Applier) endWatch(f *follower) {
	delete(a.followers, f.scope)
	a.unstarted = slices.DeleteFunc(a.unstarted, func(u *follower) bool { return u == f })
	if f.stop != nil {
		f.stop()
	}
}

func (f *follower) run(ctx context.Context) {
	backoff := &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.7, Jitter: 0.3, Steps: 12, Cap: 8 * time.Second}
	r := cache.NewReflectorWithOptions(f, nil, f, cache.ReflectorOptions{Name: "sets", TypeDescription: f.GroupVersionResource.Resource,
		Backoff: backoff})
	r.RunWithContext(klog.NewContext(ctx, logr.Discard())) // refused has reported what goes wrong
}

// refused ends a watch that is not permitted. A watch of all namespaces is replaced by one for each namespace.
func (f *follower) refused() {
	f.Applier.mu.Lock()
	if f.followers[f.scope] != f { // it has ended
		f.Applier.mu.Unlock()
		return
	}
	f.endWatch(f)
	wide := f.Namespaced && f.namespace == "" && !f.narrow[f.GroupResource()]
	warn := !wide && !f.unwatched[f.scope]
	f.unwatched[f.scope] = f.unwatched[f.scope] || warn
	f.narrow[f.GroupResource()] = f.narrow[f.GroupResource()] || wide
	var users []*setState
	for _, s := range f.sets {
		if s.watched[f.scope] {
			delete(s.watched, f.scope)
			users = append(users, s)
		}
	}
	f.Applier.mu.Unlock()
	if warn {
		rule := kube.Rule{Group: f.Group, Resource: f.GroupVersionResource.Resource, Verbs: []string{"list", "watch"}}
		f.opts.Log.Warn("Changes of objects of sets are corrected by the next run only, because a permission is missing", "kind", f.Kind,
			"hint", kube.Grant(f.namespace, rule))
	}
	if !wide {
		return
	}
	for _, s := range users {
		s.mu.Lock()
		namespaces := slices.Clone(s.places[f.kind()])
		s.mu.Unlock()
		f.Applier.mu.Lock()
		scopes := maps.Clone(s.watched)
		f.spread(scopes, f.Resource, namespaces)
		f.watchOnly(s, scopes)
		f.Applier.mu.Unlock()
	}
}

var _ interface {
	cache.ListerWatcherWithContext
	cache.ReflectorStore
	cache.ResourceVersionUpdater
} = (*follower)(nil)

func (f *follower) IsWatchListSemanticsUnSupported() bool { return true }

func (f *follower) List(opts metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.Background(), opts)
}

func (f *follower) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.Background(), opts)
}

func (f *follower) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	body, err := f.open(ctx, "List", opts)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	list := &metav1.PartialObjectMetadataList{}
	return list, json.UnmarshalRead(body, list, json.MatchCaseInsensitiveNames(true))
}

func (f *follower) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	body, err := f.open(ctx, "", opts)
	if err != nil {
		return nil, err
	}
	events := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return kube.Stream(body, func() (watch.Event, error) {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object jsontext.Value  `json:"object"`
		}
		if err := json.UnmarshalDecode(events, &event); err != nil {
			return watch.Event{}, err
		}
		if event.Type == watch.Error {
			status := &metav1.Status{Code: http.StatusInternalServerError}
			_ = json.Unmarshal(event.Object, status, json.MatchCaseInsensitiveNames(true))
			return watch.Event{Type: watch.Error, Object: status}, nil
		}
		o := &live{}
		return watch.Event{Type: event.Type, Object: o}, json.Unmarshal(event.Object, o, json.MatchCaseInsensitiveNames(true))
	}), nil
}

func (f *follower) open(ctx context.Context, suffix string, opts metav1.ListOptions) (io.ReadCloser, error) {
	opts.LabelSelector = partOfLabel
	body, err := f.opts.Watch.Get().AbsPath(f.Path(f.namespace)...).
		SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata"+suffix+";g=meta.k8s.io;v=v1,application/json").
		SetHeader("Accept-Encoding", "identity").
		MaxRetries(0).Stream(ctx)
	if kube.IsPermissionMissing(err) {
		f.refused()
	}
	return body, err
}

func (f *follower) Resync() error { return nil }

func (f *follower) Add(obj any) error    { return f.delivered(obj) }
func (f *follower) Update(obj any) error { return f.delivered(obj) }

func (f *follower) delivered(obj any) error {
	if o, ok := obj.(*live); ok {
		f.Applier.changed(ref{f.kind(), o.Namespace, o.Name}, o)
		f.UpdateResourceVersion(o.ResourceVersion)
	}
	return nil
}

func (f *follower) Delete(obj any) error {
	if o, ok := obj.(*live); ok {
		f.Applier.changed(ref{f.kind(), o.Namespace, o.Name}, absent(o.Labels[partOfLabel], o.ResourceVersion))
		f.UpdateResourceVersion(o.ResourceVersion)
	}
	return nil
}

// UpdateResourceVersion is called for bookmarks, too.
func (f *follower) UpdateResourceVersion(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reached = max(f.reached, versionOf(text))
}

// Replace receives a complete list: members that are not in it are gone.
func (f *follower) Replace(objects []any, version string) error {
	present := map[ref]*live{}
	for _, obj := range objects {
		if o, ok := obj.(*live); ok {
			present[ref{f.kind(), o.Namespace, o.Name}] = o
		}
	}
	f.listed(f.scope, present, version)
	f.UpdateResourceVersion(version)
	return nil
}
