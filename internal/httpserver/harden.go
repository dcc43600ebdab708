package httpserver

import "net/http"

// MaxHeaderBytes bounds headers of programs on this machine, and of clients of HTTP hooks: it leaves room for tokens and cookies.
const MaxHeaderBytes = 64 << 10

// Harden closes an HTTP/1.1 connection after a chunked request, against request smuggling: a request with both a length
// and chunks is read as chunks, but a proxy in front may have used the length, and then what follows on the connection
// belongs to another client.
func Harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
