package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// version answers paths that are in it with its name, if they are ready.
type version struct {
	name  string
	ready map[string]bool
}

func (v *version) Answers(r *http.Request) (known, ready bool) {
	ready, known = v.ready[r.URL.Path]
	return known, ready
}

func (*version) Wait() {}

func (v *version) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, v.name) }

// Each hook is replaced when its next version is ready, whatever the others wait for.
func TestReplacedHookByHook(t *testing.T) {
	var r replaceable
	ask := func(path, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	first := &version{"first", map[string]bool{"/a": true, "/b": true, "/gone": true}}
	second := &version{"second", map[string]bool{"/a": false, "/b": true, "/new": false}}
	third := &version{"third", map[string]bool{"/a": false, "/b": false, "/new": false}}
	r.put(first)
	ask("/a", "first")
	r.put(second)
	ask("/a", "first")
	ask("/b", "second")
	ask("/gone", "second")
	ask("/new", "second") // which rejects it
	r.put(third)
	ask("/a", "first")
	ask("/b", "second")
	r.drop(second) // it is not the last one any more
	ask("/a", "first")
	third.ready["/a"], third.ready["/b"] = true, true
	ask("/a", "third")
	r.drop(third)
	third.ready["/a"] = false
	ask("/a", "third")
}
