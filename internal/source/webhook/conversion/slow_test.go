package conversion

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// Connections that announce reviews and send nothing do not block reviews of the API server.
func TestSlowClientsDoNotBlockReviews(t *testing.T) {
	h := handler(Options{Parallel: 1, Queue: 1}, func(context.Context, []byte) (*effect.ConversionAnswer, error) { return smallAnswer, nil })
	server := httptest.NewServer(h)
	defer server.Close()
	for range 5 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
			widgets)
		// That is sent when the handler begins to read.
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if m := ask(t, h, t.Context(), ""); m != "" {
		t.Error(m)
	}
	server.CloseClientConnections()
}

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
	if h.ServeHTTP(w, r); w.Code != http.StatusNotFound {
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
