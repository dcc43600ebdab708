package debug

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"now": time.Now, "lower": strings.ToLower,
	"title": func(about string) string { return strings.ToUpper(about[:1]) + about[1:] },
	// word turns a state into a class name.
	"word": func(state any) string {
		first, _, _ := strings.Cut(fmt.Sprint(state), ",")
		return strings.ReplaceAll(first, " ", "-")
	},
}).ParseFS(pageFiles, "page/page.html"))

// pagePolicy allows the page its own two files and its own URL, nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// NewPage returns the status page. It serves /, the same as JSON at /status.json, and the page's files below /status/.
// Without JavaScript it is static; with it, it refreshes itself while it is visible.
func NewPage(a *API, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		var b bytes.Buffer
		err := pageTemplate.Execute(&b, &struct {
			Status
			Profiling bool
			Now       string
		}{a.statusAt(now, false), profiling, now.Format(time.RFC3339)})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		serveFile(w, "text/html; charset=utf-8", b.Bytes())
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, _ *http.Request) {
		text, err := marshal(a.statusAt(time.Now(), false))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		serveFile(w, contentTypes[jsonFormat], text)
	})
	for name, contentType := range map[string]string{"status.css": "text/css; charset=utf-8", "status.js": "text/javascript; charset=utf-8"} {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is part of the program
		}
		mux.HandleFunc("GET /status/"+name, func(w http.ResponseWriter, _ *http.Request) { serveFile(w, contentType, text) })
	}
	return mux
}

func serveFile(w http.ResponseWriter, contentType string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(text)
}
