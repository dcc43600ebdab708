package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bookmarkInterval is how often a watch reports the current version to a client that accepts it.
const bookmarkInterval = time.Minute

// watch sends changes. It reads the log of the server, so a client that does not read holds back nothing; what it misses meanwhile ends it.
type watch struct {
	server    *Server
	q         *request
	selected  selection
	initial   []*stored
	version   int // what has been sent
	marked    int // the version of the last bookmark
	bookmarks bool
	// ends: a bookmark marks the end of the initial objects.
	ends    bool
	partial bool
	timeout <-chan time.Time
}

// watch begins a watch at the version of a request, or with the current objects.
func (s *Server) watch(q *request) (any, *apierrors.StatusError) {
	sel, failure := q.selection()
	if failure != nil {
		return nil, failure
	}
	query := q.URL.Query()
	version, failure := q.version(s.version)
	if failure != nil {
		return nil, failure
	}
	w := &watch{server: s, q: q, selected: sel, version: version, bookmarks: query.Get("allowWatchBookmarks") == "true"}
	if w.partial, failure = q.onlyMetadata(); failure != nil {
		return nil, failure
	}
	wanted := query.Get("sendInitialEvents")
	if wanted == "true" && query.Get("resourceVersionMatch") != "NotOlderThan" {
		return nil, invalid(metav1.Unversioned.WithKind("ListOptions").GroupKind(), "",
			fieldInvalid("resourceVersionMatch", query.Get("resourceVersionMatch"), "sendInitialEvents requires NotOlderThan"))
	}
	if wanted == "true" || version == 0 {
		w.version = s.version
	}
	if wanted == "true" || wanted == "" && version == 0 {
		for _, at := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
			if sel.matches(at, s.objects[at]) {
				w.initial = append(w.initial, s.objects[at])
			}
		}
		w.ends = wanted == "true" && w.bookmarks
	}
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		w.timeout = time.After(time.Duration(seconds) * time.Second)
	}
	return w, nil
}

// run sends events until the client, or its time, has ended, or it is too far behind.
func (w *watch) run(ctx context.Context, write func([]byte) error) error {
	send := func(kind string, object any) error {
		text, err := json.Marshal(map[string]any{"type": kind, "object": object})
		if err != nil {
			return err
		}
		return write(append(text, '\n'))
	}
	for _, o := range w.initial {
		if err := send("ADDED", w.object(w.q.read(o), "")); err != nil {
			return err
		}
	}
	w.initial = nil
	if w.ends {
		if err := send("BOOKMARK", w.bookmark(map[string]any{"k8s.io/initial-events-end": "true"})); err != nil {
			return err
		}
	}
	tick := time.NewTicker(bookmarkInterval)
	defer tick.Stop()
	for {
		events, changed, expired := w.next()
		if expired != nil {
			return send("ERROR", statusOf(expired))
		}
		for _, e := range events {
			if kind, o := w.seen(e); kind != "" {
				if err := send(kind, w.object(w.q.read(o), fmt.Sprint(e.version))); err != nil {
					return err
				}
			}
			w.version = max(w.version, e.version)
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.timeout:
			return nil
		case <-changed:
		case <-tick.C:
			if w.bookmarks && w.marked != w.version {
				if err := send("BOOKMARK", w.bookmark(nil)); err != nil {
					return err
				}
			}
		}
	}
}

// batch is how many events are sent before the log is read again.
const batch = 64

// next returns the next events, and what is closed at the next change.
func (w *watch) next() (events []event, changed <-chan struct{}, expired *apierrors.StatusError) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.version < s.forgotten {
		return nil, nil, s.expired(w.version)
	}
	from, _ := slices.BinarySearchFunc(s.log, w.version+1, func(e event, version int) int { return cmp.Compare(e.version, version) })
	return slices.Clone(s.log[from:min(len(s.log), from+batch)]), s.changed, nil
}

// seen is what an event is to the selection of the watch: an object that is no more selected is deleted.
func (w *watch) seen(e event) (kind string, o *stored) {
	was, is := w.selected.matches(e.at, e.before), !e.deleted && w.selected.matches(e.at, e.after)
	switch {
	case was && is:
		return "MODIFIED", e.after
	case is:
		return "ADDED", e.after
	case was:
		return "DELETED", e.before
	}
	return "", nil
}

// object is what the client reads of an object, or of a bookmark; version replaces its own if it is not empty.
func (w *watch) object(tree map[string]any, version string) map[string]any {
	if version != "" {
		tree = maps.Clone(tree)
		metadata := maps.Clone(metadataOf(tree))
		metadata["resourceVersion"] = version
		tree["metadata"] = metadata
	}
	if w.partial {
		return partial(tree, "")
	}
	return tree
}

func (w *watch) bookmark(annotations map[string]any) map[string]any {
	w.marked = w.version
	tree := w.q.empty()
	if annotations != nil {
		metadataOf(tree)["annotations"] = annotations
	}
	return w.object(tree, fmt.Sprint(w.version))
}
