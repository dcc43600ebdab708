package app

import (
	"context"
	"net"
	"sync"

	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// servePages serves metrics and health until the returned function is called.
func (op *operator) servePages(o Options) (end func(), err error) {
	pages, err := httpserver.NewPages(httpserver.PagesOptions{
		Address: o.ListenAddress, Profiling: o.Profiling, Ready: op.insight.readiness, Log: o.Log,
		Home:    op.insight.page,
		Metrics: telemetry.MetricsHandler(op.meter.Registry, o.Log), HookMetrics: telemetry.HookMetricsHandler(op.effects.Metrics, o.Log),
	})
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(pages.Address())
	o.Log.Info("base http server started", "address", host, "port", port)
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := pages.Run(ctx); err != nil {
			op.log.Error("The operator's own pages are no longer served", "error", err.Error())
		}
	})
	return func() { cancel(); serving.Wait() }, nil
}
