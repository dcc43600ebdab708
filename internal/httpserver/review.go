package httpserver

import (
	"mime"
	"net/http"
	"time"
)

// TimeLimit is how long the review of a request may take. The API server sends its timeout with each request; a tenth of it is kept for the
// network, so that the API server gets the reason of a failure. Most bounds the timeout of a request, byDefault is that of others.
func TimeLimit(r *http.Request, byDefault, most time.Duration) time.Duration {
	timeout := byDefault
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		timeout = min(asked, most)
	}
	return timeout - min(timeout/10, time.Second)
}

// IsJSON reports whether a request has JSON by its header.
func IsJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
