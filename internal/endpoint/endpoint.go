// Package endpoint serves the operator's own pages: metrics, health, and profiles if they were asked for.
//
// Callers may rely on this:
//   - Nothing is changed by any page, and nothing secret is on one.
//   - The address is taken when New returns; Run serves until its context ends, and then lets requests finish.
//   - A profile of some time that is being taken then ends, and is delivered.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/hardening"
)

// Options of a Server. All but Profiling are required.
type Options struct {
	// Address is "host:port".
	Address string
	// Home serves / and what it needs for that, below /status/.
	Home http.Handler
	// Metrics serves the operator's own metrics, HookMetrics those that hooks handed back.
	Metrics, HookMetrics http.Handler
	// Ready tells why the operator is not ready, or nil; and what is worth knowing although it is.
	Ready func() (notes []string, err error)
	// Profiling serves /debug/pprof, which tells much about the program and costs it time.
	Profiling bool
	Log       *slog.Logger
}

// Server serves the pages.
type Server struct {
	listener net.Listener
	server   *http.Server
	// stop tells profiles that the server ends.
	stop context.CancelFunc
}

// route is one page.
type route struct {
	path    string
	handler http.Handler
}

// New takes the address.
func New(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w: choose another address with --listen-address and --listen-port", o.Address, err)
	}
	mux := http.NewServeMux()
	stopping, stop := context.WithCancel(context.Background())
	table := routes(&o, stopping)
	for _, r := range table {
		mux.Handle("GET "+r.path, r.handler)
	}
	mux.Handle("GET /{$}", o.Home)
	mux.Handle("GET /status/", o.Home)
	mux.Handle("GET /discovery", discovery(table))
	return &Server{listener: listener, stop: stop, server: &http.Server{
		Handler: hardening.Handler(mux), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 90 * time.Second, WriteTimeout: 90 * time.Second,
		MaxHeaderBytes: hardening.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}, nil
}

func routes(o *Options, stopping context.Context) []route {
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

// untilEnd lets a profile that takes some time end when the server does. Otherwise a profile of a whole life would be lost.
func untilEnd(stopping context.Context, profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The time limit for sending a request would end a long profile, too.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		profile(w, r.WithContext(ctx))
	}
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends. Requests then have a second to finish.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan struct{})
	defer close(ended)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		s.stop()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.server.Shutdown(grace) != nil {
			_ = s.server.Close()
		}
	}()
	err := s.server.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
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

// discovery lists the pages as text. Profiles are one line, which stands there whether they are served or not.
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
