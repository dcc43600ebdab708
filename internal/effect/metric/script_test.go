package metric_test

import (
	"bytes"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestScripts runs the archives in testdata. In an archive a file "run HOOK" is what a run of a hook writes, a file
// "scrape" what Prometheus gets then, and a file "log" what has been logged since the last one. An archive whose
// comment begins with "restart" is about the Restart option.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runScript(t, script)
			if *update {
				if err := os.WriteFile(path, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func runScript(t *testing.T, script *txtar.Archive) {
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
		if want := string(f.Data); got != want && !*update {
			t.Errorf("file %d, %s: got\n%s\nwant\n%s\n(-update rewrites it)", i+1, f.Name, got, want)
		}
		f.Data = []byte(got)
	}
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
