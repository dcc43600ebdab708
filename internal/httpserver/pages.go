package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// PagesOptions of the operator's own pages. All but Profiling are required.
type PagesOptions struct {
	// Address is "host:port".
	Address string
	// Home serves / and its assets below /status/.
	Home http.Handler
	// Metrics serves the operator's own metrics, HookMetrics those of hooks.
	Metrics, HookMetrics http.Handler
	// Ready returns why the operator is not ready, or nil, and notes that do not affect readiness.
	Ready func() (notes []string, err error)
	// Profiling serves /debug/pprof, which exposes internals and costs CPU.
	Profiling bool
	Log       *slog.Logger
}

// route is one page.
type route struct {
	path    string
	handler http.Handler
}

// NewPages binds the address of the operator's own pages.
func NewPages(o PagesOptions) (*Server, error) {
	mux := http.NewServeMux()
	stopping, stop := context.WithCancel(context.Background())
	table := routes(&o, stopping)
	for _, r := range table {
		mux.Handle("GET "+r.path, r.handler)
	}
	mux.Handle("GET /{$}", o.Home)
	mux.Handle("GET /status/", o.Home)
	mux.Handle("GET /status.json", o.Home)
	mux.Handle("GET /discovery", discovery(table))
	s, err := New(Options{
		Address: o.Address, Handler: mux, Log: o.Log, Hint: "choose another address with --listen-address and --listen-port",
		Grace: time.Second, ReadTimeout: 90 * time.Second, WriteTimeout: 90 * time.Second,
	})
	if err != nil {
		stop()
		return nil, err
	}
	s.server.RegisterOnShutdown(stop)
	return s, nil
}

func routes(o *PagesOptions, stopping context.Context) []route {
	table := []route{
		{"/metrics", o.Metrics},
		{"/metrics/hooks", o.HookMetrics},
		{"/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })},
		{"/readyz", ready(o.Ready)},
	}
	if o.Profiling {
		table = append(table,
			route{"/debug/pprof/", http.HandlerFunc(pprof.Index)},
			route{"/debug/pprof/profile", untilEnd(stopping, pprof.Profile)},
			route{"/debug/pprof/symbol", http.HandlerFunc(pprof.Symbol)},
			route{"/debug/pprof/trace", untilEnd(stopping, pprof.Trace)},
		)
	}
	return table
}

// untilEnd ends a running profile when the server shuts down, and delivers it: a profile of a whole process life is not lost.
func untilEnd(stopping context.Context, profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The read timeout would end a long profile, too.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		profile(w, r.WithContext(ctx))
	}
}

func ready(check func() ([]string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		notes, err := check()
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
		} else {
			fmt.Fprintln(w, "ok")
		}
		for _, note := range notes {
			fmt.Fprintln(w, note)
		}
	}
}

// discovery lists the pages as text. The line for profiles is there whether they are served or not, as upstream.
func discovery(table []route) http.HandlerFunc {
	var b strings.Builder
	b.WriteString("GET /\n")
	for _, r := range table {
		if !strings.HasPrefix(r.path, "/debug/") {
			b.WriteString("GET " + r.path + "\n")
		}
	}
	b.WriteString("GET /discovery\nGET /debug/pprof/*\n")
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, b.String()) }
}
