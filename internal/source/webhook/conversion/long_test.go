package conversion

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A client that makes up names of CRDs, or sends what is no review, does not fill the log.
func TestStrangersAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := NewHandler(Options{Hooks: hooks(widgets, "v1>v2"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 200 {
		for _, path := range []string{fmt.Sprintf("/things-%d.example.com", i), "/" + widgets} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("no review"))
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d records:\n%.500s", n, &log)
	}
}

// The body of a request for a CRD without hooks is not read.
func TestUnknownCRDIsNotRead(t *testing.T) {
	h := handler(Options{}, nil)
	r := httptest.NewRequest(http.MethodPost, "/gadgets.acme.dev", nil)
	r.Body = unread{t}
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}
func (unread) Close() error { return nil }

// Versions and names that a client makes up are cut in the log, whatever their length, and are not kept as they are.
func TestLongTextsOfClients(t *testing.T) {
	var log bytes.Buffer
	h := NewHandler(Options{Hooks: hooks(widgets, "v1>v2"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 3 {
		long := fmt.Sprint(i) + strings.Repeat("v", 1<<20)
		for _, body := range []string{
			`{"request": {"uid": "` + long + `", "desiredAPIVersion": "w` + long + `", "objects": [{"apiVersion": "` + long + `", "kind": "` + long +
				`", "metadata": {"name": "` + long + `"}}]}}`,
			`{"request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [{"` + long + `": {"metadata": 7}, "metadata": {"` + long +
				`": 1, "name": 7}}]}}`,
			`{"request": {"` + long + `": {"` + long + `": bad`,
		} {
			r := httptest.NewRequest(http.MethodPost, "/"+widgets, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	n := strings.Count(log.String(), "\n")
	if n == 0 || log.Len() > n*2048 {
		t.Errorf("%d records of %d bytes:\n%.3000s", n, log.Len(), &log)
	}
}
