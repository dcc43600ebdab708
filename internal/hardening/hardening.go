// Package hardening is what all HTTP servers of the operator do against odd requests.
//
// Callers may rely on this:
//   - After a request in chunks the connection is closed. One that also has a length is read in chunks, as the standard says,
//     but a proxy in front may have gone by the length, and what follows on the connection may be from somebody else.
//   - Answers of HTTP/2 are left alone: there is only one way to say where a request ends.
package hardening

import "net/http"

// MaxHeaderBytes is enough for tokens and cookies, and small enough for many connections at a time.
const MaxHeaderBytes = 64 << 10

// Handler returns next with what the package promises.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
