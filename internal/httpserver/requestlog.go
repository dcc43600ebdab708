package httpserver

import (
	"log/slog"
	"net/http"
	"time"
)

// logRequests logs each request except for probes, which come every few seconds.
func logRequests(log *slog.Logger, component string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		LogRequest(log, slog.LevelInfo, component, w, r, func(response *Response) { next.ServeHTTP(response, r) })
	})
}

// LogRequest logs a request after its response.
func LogRequest(log *slog.Logger, level slog.Level, component string, w http.ResponseWriter, r *http.Request, respond func(*Response)) {
	start, response := time.Now(), &Response{ResponseWriter: w, Status: http.StatusOK}
	defer func() {
		log.Log(r.Context(), level, "complete", "operator.component", component, "http_method", r.Method, "uri", r.RequestURI,
			"resp_status", response.Status, "resp_bytes_length", response.Bytes,
			"resp_elapsed_ms", float64(time.Since(start).Microseconds())/1000)
	}()
	respond(response)
}

// Response records the status and the size of a response. A handler that writes nothing has responded 200.
type Response struct {
	http.ResponseWriter
	Status, Bytes int
	sent          bool
}

// WriteHeader implements http.ResponseWriter.
func (r *Response) WriteHeader(status int) {
	if !r.sent {
		r.Status, r.sent = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *Response) Write(b []byte) (int, error) {
	r.sent = true
	n, err := r.ResponseWriter.Write(b)
	r.Bytes += n
	return n, err
}

// Unwrap gives http.ResponseController access to the connection.
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
