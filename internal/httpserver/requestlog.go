package httpserver

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// logRequests logs each request. Those that are not answered with 200 are logged once a minute for each status: any client can cause them.
func logRequests(log *slog.Logger, component string, next http.Handler) http.Handler {
	rejected := logonce.Dedup{Every: time.Minute}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, response := time.Now(), &Response{ResponseWriter: w, Status: http.StatusOK}
		defer func() {
			fields := response.fields(component, r, start)
			if response.Status != http.StatusOK {
				suppressed, due := rejected.Due(strconv.Itoa(response.Status), "")
				if !due {
					return
				}
				if suppressed > 0 {
					fields = append(fields, "again", suppressed)
				}
			}
			log.Info("complete", fields...)
		}()
		next.ServeHTTP(response, r)
	})
}

// fields returns the fields of the record of a request.
func (r *Response) fields(component string, req *http.Request, start time.Time) []any {
	return []any{"operator.component", component, "http_method", Text(req.Method), "uri", Text(req.RequestURI),
		"resp_status", r.Status, "resp_bytes_length", r.Bytes, "resp_elapsed_ms", float64(time.Since(start).Microseconds()) / 1000}
}

// LogRequest logs a request after its response.
func LogRequest(log *slog.Logger, level slog.Level, component string, w http.ResponseWriter, r *http.Request, respond func(*Response)) {
	start, response := time.Now(), &Response{ResponseWriter: w, Status: http.StatusOK}
	defer func() {
		log.Log(r.Context(), level, "complete", response.fields(component, r, start)...)
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
