package debug

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// ServerOptions are the addresses of the API.
type ServerOptions struct {
	API   *API
	Place Place
	// TCP is "host:port", or empty for none. Without host it is the loopback address.
	TCP string
	Log *slog.Logger
}

// Server serves the API.
type Server struct {
	log *slog.Logger
	// served are a listener and what it serves.
	served []served
}

type served struct {
	listener net.Listener
	handler  http.Handler
	// socket: clients may change something.
	socket bool
}

// addressConnections bounds the connections to the address.
const addressConnections = 256

// Listen takes the addresses; Run serves them.
func Listen(o ServerOptions) (*Server, error) {
	s := &Server{log: o.Log}
	socket, err := o.Place.listen(o.Log)
	if err != nil {
		return nil, err
	}
	if socket != nil {
		s.served = append(s.served, served{socket, o.API, true})
	}
	if o.TCP != "" {
		tcp, err := listenTCP(o.TCP, o.Log)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.served = append(s.served, served{tcp, noBrowsers(o.API), false})
	}
	for _, one := range s.served {
		o.Log.Info("Debug endpoint listen on address", "address", one.listener.Addr().String())
	}
	return s, nil
}

func listenTCP(address string, log *slog.Logger) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on --debug-http-addr %q: write it as host:port, for instance 127.0.0.1:9652", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on --debug-http-addr %q: %w: choose another address", address, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		log.Warn("The debug API is open to the network without authentication: every client can read snapshots and outputs of hooks",
			"address", l.Addr().String())
	}
	return l, nil
}

// noBrowsers rejects requests of web pages: otherwise every page in a browser on this machine could read the API.
func noBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.Header.Get("Origin") != "", site != "" && site != "none":
			http.Error(w, "requests of web pages are rejected", http.StatusForbidden)
		case !strings.EqualFold(host, "localhost") && net.ParseIP(host) == nil:
			http.Error(w, "use an IP address: a host name may resolve to another machine", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Close closes addresses that are not served yet.
func (s *Server) Close() {
	for _, one := range s.served {
		_ = one.listener.Close()
	}
}

// Run serves until ctx ends. Tails end then; other requests have a second to finish.
func (s *Server) Run(ctx context.Context) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, one := range s.served {
		listener, server := one.listener, &http.Server{
			Handler: httpserver.Harden(one.handler), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: httpserver.MaxHeaderBytes,
			ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
			BaseContext:    func(net.Listener) context.Context { return ctx },
		}
		if one.socket {
			server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context { return withCaller(ctx, peer(conn)) }
		} else {
			server.WriteTimeout = unread
			listener = httpserver.NewConnections(addressConnections, s.log).Bound(server, listener)
		}
		serving.Go(func() {
			if err := httpserver.Serve(ctx, server, listener, time.Second); err != nil {
				s.log.Error("The debug API is no longer served", "address", one.listener.Addr().String(), "error", err.Error())
			}
		})
	}
}
