package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"
)

// PagesOptions of the operator's own pages. All but Profiling are required.
type PagesOptions struct {
	// Address is "host:port".
	Address string
	// Home serves / and its assets below /status/.
	Home http.Handler
	// Metrics serves the operator's own metrics, HookMetrics the metrics that hooks write.
	Metrics, HookMetrics http.Handler
	// Ready returns why the operator is not ready, or nil, and notes that do not affect readiness.
	Ready func() (notes []string, err error)
	// Profiling serves /debug/pprof, which exposes internals and costs CPU.
	Profiling bool
	Log       *slog.Logger
}

// NewPages binds the address of the operator's own pages.
func NewPages(o PagesOptions) (*Server, error) {
	stopping, stop := context.WithCancel(context.Background())
	pages := map[string]http.Handler{
		"/{$}": o.Home, "/status/": o.Home, "/status.json": o.Home, "/metrics": o.Metrics, "/metrics/hooks": o.HookMetrics,
		"/healthz": constant("ok\n"), "/readyz": ready(o.Ready), "/discovery": constant(discovery),
	}
	if o.Profiling {
		pages["/debug/pprof/"] = http.HandlerFunc(pprof.Index)
		pages["/debug/pprof/profile"] = untilEnd(stopping, pprof.Profile)
		pages["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
		pages["/debug/pprof/trace"] = untilEnd(stopping, pprof.Trace)
	}
	mux := http.NewServeMux()
	for path, handler := range pages {
		mux.Handle("GET "+path, handler)
	}
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

// discovery lists the pages. The line for profiles is there whether they are served or not, as upstream.
const discovery = `GET /
GET /metrics
GET /metrics/hooks
GET /healthz
GET /readyz
GET /discovery
GET /debug/pprof/*
`

func constant(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
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
