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

// scope is what one watch covers: the members of all sets of a kind, in one namespace or in all.
type scope struct {
	kube.Resource
	namespace string
}

func (s scope) kind() schema.GroupKind { return schema.GroupKind{Group: s.Group, Kind: s.Kind} }

// follower is the watch of a scope. It keeps no objects: each one is compared with what was applied.
type follower struct {
	*Applier
	scope
	// stop ends the watch.
	stop context.CancelFunc

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
	a.drifted = workqueue.NewTypedDelayingQueue[suspicion]()
	var running sync.WaitGroup
	defer running.Wait()
	defer a.drifted.ShutDown()
	for range parallelRestores {
		running.Go(func() { a.restoreAll(ctx) })
	}
	for {
		a.mu.Lock()
		starting := a.unstarted
		a.unstarted = nil
		a.mu.Unlock()
		for _, f := range starting {
			running.Go(func() { f.run(ctx) })
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
	}
}

// follow watches the members of a set, unless they are watched.
func (s *session) follow() {
	if s.opts.Watch == nil || s.opts.DryRun {
		return
	}
	s.state.mu.Lock()
	all := s.state.places
	s.state.mu.Unlock()
	for kind, namespaces := range all {
		res, known := s.resources[kind]
		if !known {
			continue
		}
		s.mu.Lock()
		narrow := s.narrow[res.GroupResource()] || kind == schema.GroupKind{Kind: "Secret"}
		s.mu.Unlock()
		if !narrow {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			s.watch(scope{res, namespace})
		}
	}
}

// watch has Run start a watch, unless there is one.
func (a *Applier) watch(at scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.followers[at] != nil {
		return
	}
	a.followers[at] = &follower{Applier: a, scope: at}
	a.unstarted = append(a.unstarted, a.followers[at])
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (f *follower) run(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	defer f.stop()
	backoff := &wait.Backoff{Duration: 300 * time.Millisecond, Factor: 1.7, Jitter: 0.3, Steps: 12, Cap: 8 * time.Second}
	r := cache.NewReflectorWithOptions(f, nil, f, cache.ReflectorOptions{Name: "sets", TypeDescription: f.GroupVersionResource.Resource, Backoff: backoff, Clock: kube.Clock(ctx)})
	r.RunWithContext(klog.NewContext(ctx, logr.Discard())) // refused has reported what goes wrong
}

// refused ends a watch that is not permitted. One of all namespaces is replaced by those of single ones.
func (f *follower) refused() {
	defer f.stop()
	f.Applier.mu.Lock()
	delete(f.followers, f.scope)
	wide := f.Namespaced && f.namespace == "" && !f.narrow[f.GroupResource()]
	warn := !wide && !f.unwatched[f.scope]
	f.unwatched[f.scope] = f.unwatched[f.scope] || warn
	f.narrow[f.GroupResource()] = f.narrow[f.GroupResource()] || wide
	sets := slices.Collect(maps.Values(f.sets))
	f.Applier.mu.Unlock()
	if warn {
		rule := kube.Rule{Group: f.Group, Resource: f.GroupVersionResource.Resource, Verbs: []string{"list", "watch"}}
		f.opts.Log.Warn("Changes of objects of sets are corrected by the next run only, because a permission is missing", "kind", f.Kind, "hint", kube.Grant(f.namespace, rule))
	}
	if !wide {
		return
	}
	for _, s := range sets {
		s.mu.Lock()
		namespaces := slices.Clone(s.places[f.kind()])
		s.mu.Unlock()
		for _, namespace := range namespaces {
			f.watch(scope{f.Resource, namespace})
		}
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
	body, err := f.opts.Watch.Get().AbsPath(f.Path(f.namespace)...).SpecificallyVersionedParams(&opts, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata"+suffix+";g=meta.k8s.io;v=v1,application/json").SetHeader("Accept-Encoding", "identity").
		MaxRetries(0).Stream(ctx)
	if kube.IsPermissionMissing(err) {
		f.refused()
	}
	return body, err
}

func (f *follower) Resync() error { return nil }

func (f *follower) Add(obj any) error    { return f.changed(obj) }
func (f *follower) Update(obj any) error { return f.changed(obj) }

func (f *follower) changed(obj any) error {
	if o, ok := obj.(*live); ok {
		f.compare(f.kind(), o)
		f.UpdateResourceVersion(o.ResourceVersion)
	}
	return nil
}

func (f *follower) Delete(obj any) error {
	if o, ok := obj.(*live); ok {
		f.suspect(o.Labels[partOfLabel], ref{f.kind(), o.Namespace, o.Name})
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
	present := map[ref]bool{}
	for _, obj := range objects {
		if o, ok := obj.(*live); ok {
			present[ref{f.kind(), o.Namespace, o.Name}] = true
			f.compare(f.kind(), o)
		}
	}
	f.missing(f.scope, present, versionOf(version))
	f.UpdateResourceVersion(version)
	return nil
}
