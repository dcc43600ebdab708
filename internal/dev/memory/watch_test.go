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
	_, list := l.do(http.MethodGet, "", "")
	return fmt.Sprint(list["metadata"].(map[string]any)["resourceVersion"])
}

// watch starts a watch, and returns the types of its next n events.
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
				Object struct{ Reason string }
			}
			if err := json.Unmarshal(text, &e); err != nil {
				l.t.Fatal(err)
			}
			fmt.Fprintln(&out, e.Type, e.Object.Reason)
		}
		return out.String()
	}
}

// TestFarBehind: a client whose version the log has no more lists again.
func TestFarBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes more changes than the server remembers, which takes two seconds of make unit")
	}
	l := newLive(t)
	l.do(http.MethodPost, "", `{"metadata": {"name": "a"}}`)
	l.s.SetPatience(time.Hour)
	version := l.version()
	slow := l.watch("resourceVersion=" + version) // more is written than connections buffer
	for i := range 8_200 {                        // the log keeps 4096 to 8192 changes
		l.do(http.MethodPatch, "/a", fmt.Sprintf(`{"data": {"n": "%d", "x": %q}}`, i, strings.Repeat("x", 2000)))
	}
	if got := l.watch("resourceVersion=" + version)(2); got != "ERROR Expired\nended: EOF\n" {
		t.Errorf("a watch from an old version got %s", got)
	}
	if got := slow(10_000); !strings.HasSuffix(got, "ERROR Expired\nended: EOF\n") {
		t.Errorf("a watch that was not read got …%s", got[max(0, len(got)-1000):])
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
