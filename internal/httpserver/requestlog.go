package httpserver

import (
	"log/slog"
	"net/http"
	"time"
)

// logRequests logs each request after its response, except for probes, which come every few seconds.
func logRequests(log *slog.Logger, component string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		start, response := time.Now(), &response{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			log.Info("complete", "operator.component", component, "http_method", r.Method, "uri", r.RequestURI,
				"resp_status", response.status, "resp_bytes_length", response.bytes,
				"resp_elapsed_ms", float64(time.Since(start).Microseconds())/1000)
		}()
		next.ServeHTTP(response, r)
	})
}

// response records the status and the size of a response. A handler that writes nothing has responded 200.
type response struct {
	http.ResponseWriter
	status, bytes int
	sent          bool
}

func (r *response) WriteHeader(status int) {
	if !r.sent {
		r.status, r.sent = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(b []byte) (int, error) {
	r.sent = true
	n, err := r.ResponseWriter.Write(b)
	r.bytes += n
	return n, err
}

// Unwrap gives http.ResponseController access to the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
