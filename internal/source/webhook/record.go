package webhook

import (
	"log/slog"
	"net/http"
	"time"
)

// recorded logs each request once it is answered, but for those of probes, which come every few seconds.
func recorded(log *slog.Logger, component string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		begun, answer := time.Now(), &answer{ResponseWriter: w}
		defer func() {
			log.Info("complete", "operator.component", component, "http_method", r.Method, "uri", r.RequestURI,
				"resp_status", answer.sent(), "resp_bytes_length", answer.bytes,
				"resp_elapsed_ms", float64(time.Since(begun).Microseconds())/1000)
		}()
		next.ServeHTTP(answer, r)
	})
}

// answer remembers what was answered.
type answer struct {
	http.ResponseWriter
	status, bytes int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sent is the status as the caller sees it: who writes nothing has answered 200.
func (a *answer) sent() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
