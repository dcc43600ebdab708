package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestChunksEndTheConnection(t *testing.T) {
	server := httptest.NewServer(Harden(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})))
	defer server.Close()
	for _, test := range []struct {
		name, request string
		kept          bool
	}{
		{"length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", true},
		{"no body", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{"chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", false},
		{"chunks and length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// The second request is the one that a proxy did not see.
			if _, err := io.Copy(conn, strings.NewReader(test.request+"GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(conn)
			first, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, first.Body)
			_ = first.Body.Close()
			second, err := http.ReadResponse(reader, nil)
			if err == nil {
				_ = second.Body.Close()
			}
			if first.StatusCode != http.StatusOK || (err == nil) != test.kept {
				t.Errorf("status %d, then %v, want another answer: %t", first.StatusCode, err, test.kept)
			}
		})
	}
}
