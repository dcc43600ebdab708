package httpserver

import (
	"mime"
	"net/http"
	"time"
)

// TimeLimit returns the time limit of a review. The API server sends its timeout with each request; a tenth of it is kept for the
// network, so that the API server gets the reason of a failure. It sends 30 s at most; byDefault is for other clients.
func TimeLimit(r *http.Request, byDefault time.Duration) time.Duration {
	timeout := byDefault
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		timeout = min(asked, 30*time.Second)
	}
	return timeout - min(timeout/10, time.Second)
}

// Elsewhere answers a review for a hook that another replica may have. The API server repeats the request after a second, within its
// timeout, on another connection, which may lead there.
func Elsewhere(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	http.Error(w, text, http.StatusServiceUnavailable)
}

// onlyReviews passes on what can be a review, a POST of JSON.
func onlyReviews(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "send POST", http.StatusMethodNotAllowed)
		case err != nil || media != "application/json":
			http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
