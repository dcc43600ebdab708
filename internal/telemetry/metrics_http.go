package telemetry

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

const (
	// scrapesInFlight bounds the scrapes of one path: each holds a copy of all series until its client has read them.
	scrapesInFlight = 3
	// scrapeTimeout bounds a scrape, until its client has read it.
	scrapeTimeout = 30 * time.Second
)

// NewRegistry returns a registry with the collectors of the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// MetricsHandler serves the operator's own metrics. There may be one for each registry.
func MetricsHandler(r *prometheus.Registry, log *slog.Logger) http.Handler {
	return limited(promhttp.InstrumentMetricHandler(r, promhttp.HandlerFor(r, handlerOptions(log))), scrapeTimeout, log)
}

// HookMetricsHandler serves the metrics that hooks return, and nothing else of the process.
func HookMetricsHandler(hooks prometheus.Collector, log *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(hooks)
	options := handlerOptions(log)
	options.Registry = r
	return limited(promhttp.HandlerFor(r, options), scrapeTimeout, log)
}

// limited bounds the scrapes in flight and their time: one client, which may read slowly, has one of them. Programs on this machine,
// such as a proxy for others, have as many as there are. The limits of promhttp do not count clients that read slowly: its timeout
// buffers the whole response, outside of its limit of requests. Scrapes that end early are logged once a minute: any client can
// cause them.
func limited(scrape http.Handler, timeout time.Duration, log *slog.Logger) http.Handler {
	unread := logonce.Dedup{Every: time.Minute}
	var mu sync.Mutex
	running, of := 0, map[string]int{}
	enter := func(address string) bool {
		mu.Lock()
		defer mu.Unlock()
		if running == scrapesInFlight || of[address] > 0 && !net.ParseIP(address).IsLoopback() {
			return false
		}
		running++
		of[address]++
		return true
	}
	leave := func(address string) {
		mu.Lock()
		defer mu.Unlock()
		running--
		if of[address]--; of[address] == 0 {
			delete(of, address)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		if !enter(address) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, fmt.Sprintf("%d scrapes are in flight, or one of this address: try again later", scrapesInFlight),
				http.StatusServiceUnavailable)
			return
		}
		to := &abortable{ResponseWriter: w}
		defer func() {
			leave(address)
			if to.err == nil {
				return
			}
			if suppressed, due := unread.Due("", ""); due {
				log.Warn("A scrape was not read to its end", "path", r.URL.Path, "error", to.err.Error(), "again", suppressed,
					"hint", fmt.Sprintf("raise scrape_timeout in Prometheus, up to %s, or export fewer series", timeout))
			}
		}()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // a recorder in a test has none
		scrape.ServeHTTP(to, r)
	})
}

// abortable ends the scrape of a client that has disconnected or reads too slowly: promhttp would encode the rest, and log an error for
// each metric.
type abortable struct {
	http.ResponseWriter
	// err is why the client did not get more.
	err error
}

func (w *abortable) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	if err != nil {
		w.err = err
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

func (w *abortable) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// handlerOptions leave OpenMetrics off: that format appends "_total" to counters, and then names that hooks have
// chosen could be the same.
func handlerOptions(log *slog.Logger) promhttp.HandlerOpts {
	return promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: scrapeLog{log}}
}

type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(words ...any) {
	l.log.Error("Some metrics cannot be shown", "error", fmt.Sprint(words...))
}
