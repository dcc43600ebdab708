package memory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bookmarkInterval is how often a watch reports the current version to a client that accepts it.
const bookmarkInterval = time.Minute

// watch sends changes. It reads the log of the server, so a client that does not read holds back nothing; what it misses meanwhile ends it.
type watch struct {
	server   *Server
	q        *request
	selected selection
	// events are sent first: the initial objects.
	events    []event
	version   int // what has been sent
	marked    int // the version of the last bookmark
	bookmarks bool
	// ends: a bookmark marks the end of the initial objects.
	ends    bool
	timeout <-chan time.Time
}

// watch begins a watch at the version of a request, or with the current objects.
func (s *Server) watch(q *request) (any, error) {
	sel, err := s.selection(q)
	if err != nil {
		return nil, err
	}
	query := q.URL.Query()
	w := &watch{server: s, q: q, selected: sel, version: sel.version, bookmarks: query.Get("allowWatchBookmarks") == "true"}
	wanted := query.Get("sendInitialEvents")
	if wanted == "true" && query.Get("resourceVersionMatch") != "NotOlderThan" {
		return nil, invalid(metav1.Unversioned.WithKind("ListOptions").GroupKind(), "",
			fieldInvalid("resourceVersionMatch", query.Get("resourceVersionMatch"), "sendInitialEvents requires NotOlderThan"))
	}
	if wanted == "true" || sel.version == 0 {
		w.version = s.version
	}
	if wanted == "true" || wanted == "" && sel.version == 0 {
		for _, at := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
			w.events = append(w.events, event{at: at, after: s.objects[at]})
		}
		w.ends = wanted == "true" && w.bookmarks
	}
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		w.timeout = time.After(time.Duration(seconds) * time.Second)
	}
	return w, nil
}

// serve sends events until the client has gone, or does not read, or run ends.
func (w *watch) serve(to http.ResponseWriter) {
	control := http.NewResponseController(to)
	to.Header().Set("Content-Type", "application/json")
	_ = control.Flush()
	_ = w.run(func(kind string, object any) error {
		_ = control.SetWriteDeadline(time.Now().Add(w.server.patience))
		if err := json.NewEncoder(to).Encode(map[string]any{"type": kind, "object": object}); err != nil {
			return err
		}
		err := control.Flush()
		_ = control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, although nothing is written
		return err
	})
}

// run sends events until the client, or its time, has ended, or it is too far behind.
func (w *watch) run(send func(kind string, object any) error) error {
	tick := time.NewTicker(bookmarkInterval)
	defer tick.Stop()
	for {
		for _, e := range w.events {
			if kind, o := w.seen(e); kind != "" {
				tree := w.q.read(o)
				if kind == "DELETED" { // a watch may not end before the version of the deletion
					tree = with(tree, "resourceVersion", fmt.Sprint(e.version))
				}
				if err := send(kind, w.q.represented(tree)); err != nil {
					return err
				}
			}
			w.version = max(w.version, e.version)
		}
		if w.ends {
			w.ends = false
			if err := send("BOOKMARK", w.bookmark(map[string]any{"k8s.io/initial-events-end": "true"})); err != nil {
				return err
			}
		}
		changed, err := w.next()
		if err != nil {
			return send("ERROR", statusOf(err))
		}
		if len(w.events) > 0 {
			continue
		}
		select {
		case <-w.q.Context().Done():
			return w.q.Context().Err()
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

// next reads the next events, and returns what is closed at the next change.
func (w *watch) next() (changed <-chan struct{}, expired error) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.version < s.forgotten {
		return nil, s.expired(w.version)
	}
	from, _ := slices.BinarySearchFunc(s.log, w.version+1, func(e event, version int) int { return cmp.Compare(e.version, version) })
	w.events = slices.Clone(s.log[from:min(len(s.log), from+batch)])
	return s.changed, nil
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

func (w *watch) bookmark(annotations map[string]any) any {
	w.marked = w.version
	tree := w.q.empty()
	tree["metadata"] = map[string]any{"resourceVersion": fmt.Sprint(w.version), "annotations": annotations}
	return w.q.represented(tree)
}
