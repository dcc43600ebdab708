package admission

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Connections that announce reviews and send nothing do not block reviews of the API server.
func TestSlowClientsDoNotBlockReviews(t *testing.T) {
	handler, log := newHandler(t, Options{Parallel: 1, Queue: 1, Runner: acts(`{"allowed": true}`)}, "validating a.sh a.acme.dev")
	server := httptest.NewServer(handler)
	defer server.Close()
	var slow []*bufio.Reader
	for range 5 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
			path)
		answers := bufio.NewReader(conn)
		// That is sent when the handler begins to read.
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
		slow = append(slow, answers)
	}
	res, err := http.Post(server.URL+path, "application/json", strings.NewReader(minimal))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the API server got %s", res.Status)
	}
	for _, answers := range slow[:4] {
		_, _ = answers.ReadString('\n') // the end of the first answer
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "503") {
			t.Errorf("a slow one got %q, %v", line, err)
		}
	}
	if !strings.Contains(log.String(), "arrived too slowly") {
		t.Errorf("nothing in the log:\n%s", log)
	}
	if n := strings.Count(log.String(), "too slowly"); n > 3 {
		t.Errorf("%d records of it", n)
	}
	server.CloseClientConnections()
	handler.Wait()
}

// Names that a client makes up are cut in the log.
func TestLongTextsOfClients(t *testing.T) {
	handler, log := newHandler(t, Options{Runner: acts(`{"allowed": true}`)}, "validating a.sh a.acme.dev")
	long := strings.Repeat("n", 1<<20)
	body := `{"request": {"uid": "` + long + `", "kind": {"kind": "` + long + `"}, "name": "` + long + `", "namespace": "` + long +
		`", "operation": "` + long + `", "subResource": "` + long + `"}}`
	if status, _ := post(t.Context(), handler, path, body); status != 200 {
		t.Errorf("status %d", status)
	}
	if text := log.String(); len(text) > 4096 || !strings.Contains(text, "Got AdmissionReview request") {
		t.Errorf("%d bytes are logged: %.1000s", len(text), text)
	}
}
