package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the collectors of the Go runtime and the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// MetricsHandler serves the operator's own metrics. There may be one for each registry.
func MetricsHandler(r *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.InstrumentMetricHandler(r, promhttp.HandlerFor(r, handlerOptions(log)))
}

// HookMetricsHandler serves the metrics that hooks return, and nothing else of the process.
func HookMetricsHandler(hooks prometheus.Collector, log *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(hooks)
	options := handlerOptions(log)
	options.Registry = r
	return promhttp.HandlerFor(r, options)
}

// handlerOptions leave OpenMetrics off: that format appends "_total" to counters, and then names that hooks have
// chosen could be the same.
func handlerOptions(log *slog.Logger) promhttp.HandlerOpts {
	return promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: scrapeLog{log}}
}

type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(words ...any) {
	l.log.Error("Some metrics cannot be shown", "error", fmt.Sprint(words...))
}
