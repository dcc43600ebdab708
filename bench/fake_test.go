package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"testing"

	"github.com/shell-operator/shell-operator/bench/objects"
)

// fakeServer serves a list and a watch of ConfigMaps, generated for each request so that it stores none. It is not for
// tests of behaviour: those have a real API server.
type fakeServer struct {
	*httptest.Server
	count  int
	events chan []byte
}

func newFakeServer(t *testing.T, count int) *fakeServer {
	s := &fakeServer{count: count, events: make(chan []byte)}
	mux := http.NewServeMux()
	answer := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		})
	}
	answer("/apis", `{"kind":"APIGroupList","groups":[]}`)
	answer("/api/v1",
		`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get",`+
			`"list","watch"]}]}`)
	mux.HandleFunc("/api/v1/namespaces/default/configmaps", s.serve)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Get("labelSelector") != "": // records of sets: none of the objects is one
		fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		return
	case r.URL.Query().Get("watch") == "":
		s.list(w)
		return
	}
	flush := w.(http.Flusher).Flush
	flush()
	for {
		select {
		case ev := <-s.events:
			trace.Log(r.Context(), traceCategory, traceSent)
			if _, err := w.Write(ev); err != nil {
				return
			}
			flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *fakeServer) list(w http.ResponseWriter) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	fmt.Fprint(out, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	for i := range s.count {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(s.object(i, 0))
	}
	fmt.Fprint(out, `]}`)
}

func (s *fakeServer) object(i, version int) []byte {
	o := objects.ConfigMap(i, 2048)
	o.Namespace, o.ResourceVersion = "default", fmt.Sprint(1_000_000+version)
	o.UID = objects.UID(i)
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}

// change sends a change of object i.
func (s *fakeServer) change(i, version int) {
	s.events <- fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", s.object(i, version))
}
