package memory_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// live is a server whose clients are functions.
type live struct {
	t   *testing.T
	s   *memory.Server
	url string
}

func newLive(t *testing.T) live {
	s := memory.New(memory.Options{Kinds: memory.BuiltIns(), Live: true})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	return live{t, s, server.URL}
}

// do sends a request to the ConfigMaps of the namespace default, and returns the status and the object.
func (l live) do(method, path, body string) (int, map[string]any) {
	l.t.Helper()
	response := l.send(method, path, body)
	defer response.Body.Close()
	var o map[string]any
	if err := json.NewDecoder(response.Body).Decode(&o); err != nil {
		l.t.Fatal(err)
	}
	return response.StatusCode, o
}

func (l live) send(method, path, body string) *http.Response {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.url+"/api/v1/namespaces/default/configmaps"+path,
		strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	return response
}

// version is the current version of the server.
func (l live) version() string {
	_, list := l.do(http.MethodGet, "?limit=1", "")
	return fmt.Sprint(list["metadata"].(map[string]any)["resourceVersion"])
}

// watch starts a watch, and returns what describes its next n events.
func (l live) watch(query string) (next func(n int) string) {
	l.t.Helper()
	response := l.send(http.MethodGet, "?watch=true&"+query, "")
	l.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return func(n int) string {
		l.t.Helper()
		var out strings.Builder
		for range n {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				fmt.Fprintf(&out, "ended: %v\n", err)
				break
			}
			var e struct {
				Type   string
				Object struct {
					Reason, Kind string
					Metadata     struct {
						Name        string
						Annotations map[string]string
					}
					Data map[string]string
				}
			}
			if err := json.Unmarshal(text, &e); err != nil {
				l.t.Fatal(err)
			}
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.Object.Kind, " ", e.Object.Metadata.Name, e.Object.Reason,
				" ", e.Object.Data,
				e.Object.Metadata.Annotations)))
		}
		return out.String()
	}
}

// TestWatches compares what watches send with testdata/watches.txt.
func TestWatches(t *testing.T) {
	l := newLive(t)
	var out strings.Builder
	show := func(title, events string) { fmt.Fprintf(&out, "# %s\n%s\n", title, events) }
	l.do(http.MethodPost, "", `{"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"n": "1"}}`)
	version := l.version()
	fromNow, fromStart := l.watch("resourceVersion="+version), l.watch("")
	selected := l.watch("labelSelector=x%3Dy&resourceVersion=" + version)
	named := l.watch("fieldSelector=metadata.name%3Db&resourceVersion=" + version)
	streamed := l.watch("sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
	l.do(http.MethodPost, "", `{"metadata": {"name": "b"}}`)
	l.do(http.MethodPatch, "/a", `{"data": {"n": "1"}}`)
	l.do(http.MethodPatch, "/a", `{"data": {"n": "2"}}`)
	l.do(http.MethodPatch, "/a", `{"metadata": {"labels": null}}`)
	l.do(http.MethodPatch, "/b", `{"metadata": {"labels": {"x": "y"}, "finalizers": ["example.com/f"]}}`)
	l.do(http.MethodDelete, "/b", "")
	l.do(http.MethodPatch, "/b", `{"metadata": {"finalizers": null}}`)
	show("from a version", fromNow(6))
	show("without a version", fromStart(3))
	show("by a label, which objects lose and get", selected(5))
	show("by a name", named(4))
	show("the initial list as events", streamed(3))
	show("from a version that is past", l.watch("resourceVersion="+version)(1))
	show("a limited time", l.watch("timeoutSeconds=1&resourceVersion="+l.version())(1))
	golden.Compare(t, "testdata/watches.txt", out.String())
}

// TestFarBehind: a client whose version the log has no more lists again, and one that continues a list, too.
func TestFarBehind(t *testing.T) {
	l := newLive(t)
	l.do(http.MethodPost, "", `{"metadata": {"name": "a"}}`)
	l.do(http.MethodPost, "", `{"metadata": {"name": "b"}}`)
	l.s.SetPatience(time.Hour)
	version := l.version()
	_, page := l.do(http.MethodGet, "?limit=1", "")
	next := fmt.Sprint(page["metadata"].(map[string]any)["continue"])
	slow := l.watch("resourceVersion=" + version) // more is written than connections buffer
	for i := range 8_200 {                        // the log keeps 4096 to 8192 changes
		l.do(http.MethodPatch, "/a", fmt.Sprintf(`{"data": {"n": "%d", "x": %q}}`, i, strings.Repeat("x", 2000)))
	}
	if got := l.watch("resourceVersion=" + version)(2); got != "ERROR Status Expired map[] map[]\nended: EOF\n" {
		t.Errorf("a watch from an old version got %s", got)
	}
	if got := slow(10_000); !strings.HasSuffix(got, "ERROR Status Expired map[] map[]\nended: EOF\n") {
		t.Errorf("a watch that was not read got …%s", got[max(0, len(got)-1000):])
	}
	if status, o := l.do(http.MethodGet, "?limit=1&continue="+next, ""); status != http.StatusGone || o["reason"] != "Expired" {
		t.Errorf("an old page is answered %d %v", status, o)
	}
}

// TestPages: a list in pages is that of one moment, however many objects come and go meanwhile.
func TestPages(t *testing.T) {
	l := newLive(t)
	const all = 10_000
	for i := range all {
		if _, err := l.s.Add(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n%05d"}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	next := ""
	for pages := 0; pages == 0 || next != ""; pages++ {
		_, page := l.do(http.MethodGet, "?limit=900&continue="+next, "")
		for _, item := range page["items"].([]any) {
			names = append(names, fmt.Sprint(item.(map[string]any)["metadata"].(map[string]any)["name"]))
		}
		next, _ = page["metadata"].(map[string]any)["continue"].(string)
		l.do(http.MethodDelete, fmt.Sprintf("/n%05d", 9999-pages), "")
		l.do(http.MethodPost, "", fmt.Sprintf(`{"metadata": {"name": "n%05dx"}}`, 9900+pages))
	}
	if len(names) != all || names[0] != "n00000" || names[all-1] != "n09999" {
		t.Errorf("the pages have %d names", len(names))
	}
}

// TestUnreadWatch: the connection of a client that does not read its watch is closed, and delays no other one before.
func TestUnreadWatch(t *testing.T) {
	l := newLive(t)
	l.s.SetPatience(100 * time.Millisecond)
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.s.ServeHTTP(w, r)
		close(ended)
	}))
	defer server.Close()
	response, err := http.Get(server.URL + "/api/v1/configmaps?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	l.do(http.MethodPost, "", `{"metadata": {"name": "a"}}`)
	for i := range 16 {
		body := fmt.Sprintf(`{"data": {"n": "%d", "x": %q}}`, i, strings.Repeat("x", 1<<20))
		if status, _ := l.do(http.MethodPatch, "/a", body); status != http.StatusOK {
			t.Fatalf("a write beside it is answered %d", status)
		}
	}
	<-ended
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the watch ends as if nothing was missing")
	}
}

// TestQuietWatch: a watch over HTTP/2 that sends nothing for longer than its client may leave an event ends at its own time only.
func TestQuietWatch(t *testing.T) {
	l := newLive(t)
	l.s.SetPatience(100 * time.Millisecond)
	server := httptest.NewUnstartedServer(l.s)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	l.do(http.MethodPost, "", `{"metadata": {"name": "a"}}`)
	response, err := server.Client().Get(server.URL + "/api/v1/configmaps?watch=true&timeoutSeconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.ProtoMajor != 2 || strings.Count(string(text), "\n") != 1 {
		t.Errorf("over %s: %v\n%s", response.Proto, err, text)
	}
}
