package metric_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// TestScripts runs the archives in testdata. In an archive a file "run HOOK" is what a run of a hook writes, a file
// "scrape" what Prometheus gets then, and a file "log" what has been logged since the last one. An archive whose
// comment begins with "restart" is about the Restart option.
func TestScripts(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", runScript)
}

func runScript(t *testing.T, script *txtar.Archive) *txtar.Archive {
	var log bytes.Buffer
	store := metric.New(metric.Options{Log: testLog(&log), Restart: bytes.HasPrefix(script.Comment, []byte("restart"))})
	handler := handlerOf(store)
	for i := range script.Files {
		f := &script.Files[i]
		var got string
		switch command, hook, _ := strings.Cut(f.Name, " "); command {
		case "run":
			store.Apply(hook, parse(t, f.Data))
			continue
		case "forget":
			store.Forget(hook)
			continue
		case "scrape":
			_, got = scrape(t, handler)
		case "log":
			got = log.String()
			log.Reset()
		}
		f.Data = []byte(got)
	}
	return script
}

func testLog(to *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func parse(t testing.TB, file []byte) []effect.Metric {
	t.Helper()
	ops, _, err := wire.ParseMetrics(file)
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// handlerOf serves metrics as Prometheus gets them. It fails where the operator's handler would go on.
func handlerOf(c prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

func scrape(t testing.TB, handler http.Handler) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics/hooks", nil))
	if w.Code != http.StatusOK {
		t.Errorf("a scrape fails: %s", w.Body)
	}
	return w.Code, w.Body.String()
}
