package telemetry

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestMetrics compares what Prometheus gets after a few events with testdata/metrics.prom.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := busy(t, registry, DefaultPrefix)
	if m == nil {
		return
	}
	golden.Compare(t, "testdata/metrics.prom", scrape(t, registry))
}

// busy returns metrics of an operator that has run for 25 seconds.
func busy(t *testing.T, registry prometheus.Registerer, prefix string) *Metrics {
	t.Helper()
	now := time.Unix(0, 0)
	m, err := NewMetrics(MetricsOptions{
		Registry: registry, Prefix: prefix, now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	names := Names(prefix)
	for _, c := range []prometheus.Collector{
		names.Gauge("hook_metric_series", func(set Set) { set(7, "a.sh"); set(1, "b\xff.sh") }),
		names.Gauge("parked_tasks", func(set Set) { set(2, "a.sh", "pods", "main") }),
		names.Gauge("orphaned_finalizer_objects", func(set Set) { set(3, "example.com/a", "databases") }),
		names.Gauge("orphaned_sets", func(set Set) { set(2, "gone.sh") }),
		names.Gauge("troubles", func(set Set) { set(1, "reviews", "deny.sh"); set(1, "api", "") }),
		names.Gauge("binding_not_installed", func(set Set) { set(1, "a.sh", "pods") }),
		names.Gauge("hooks_rejected", func(set Set) { set(1) }),
		names.Gauge("shard_info", func(set Set) { set(1, "0", "2", "1a2b3c4d"); set(0, "1", "2", "1a2b3c4d") }),
		names.Gauge("tasks_queue_length", func(set Set) { set(2, "main"); set(31, "slow") }),
		names.Gauge("tasks_queue_compaction_tasks_by_hook", func(set Set) { set(21, "slow", "b.sh") }),
	} {
		if registry != nil {
			if err := registry.Register(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	now = now.Add(25 * time.Second)
	m.BindingsFailed("a.sh")
	m.BindingsFailed("b.sh")
	m.HooksReloaded(true)
	m.HooksReloaded(false)
	m.TaskParked("a.sh", "pods", "main")
	m.ParkedContextDropped("a.sh", "pods", "main", "superseded")
	m.EventReplaced("a.sh", "pods", "main")
	m.EventDropped("a.sh")
	m.MemberDiffers("a.sh", "web", "ConfigMap")
	m.BindingsEnabled("a.sh", 1500*time.Millisecond)
	m.QueueAction("main", "Add", 3*time.Microsecond)
	m.Merged("slow", "a.sh", 3)
	run := Run{Hook: "a.sh", Binding: "pods", Queue: "main", Waited: 250 * time.Millisecond, Wall: 700 * time.Millisecond,
		Process: true, User: 30 * time.Millisecond, System: 10 * time.Millisecond, MaxRSS: 5 << 20}
	m.RunEnded(run)
	run.Failed = true
	m.RunEnded(run)
	run.Allowed, run.MaxRSS = true, 7<<20
	m.RunEnded(run)
	m.RunEnded(Run{Hook: "b\xff.sh", Wall: time.Millisecond})
	m.Warned("b\xff.sh")
	m.WritesLate("a.sh")
	m.KubectlCalled("b\xff.sh", "get", "trimmed", 2)
	m.Workers("b\xff.sh", 3)
	m.WorkerStarted("b\xff.sh", 20*time.Millisecond)
	m.WorkerStarted("b\xff.sh", 0)
	first, same := m.Binding("a.sh", "pods", "main"), m.Binding("a.sh", "pods", "main")
	first.Objects(5)
	same.Objects(3)
	first.Objects(2)
	first.Filtered(time.Millisecond)
	first.Handled(30 * time.Millisecond)
	m.WatchFailed("expired")
	m.AdmissionReviewed("a.sh", "deny.example.com", "denied", time.Millisecond)
	m.UnknownPath("admission")
	m.ConversionReviewed("widgets.acme.dev", "converted", time.Millisecond)
	request(t, m, answer(http.StatusOK), "https://10.0.0.1/api/v1/namespaces/shop/pods/web-1")
	request(t, m, answer(0), "https://10.0.0.1/api/v1/pods?watch=1&resourceVersion=77")
	return m
}

// answer is an API server that answers with a status; 0 means not at all.
type answer int

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

func request(t *testing.T, m *Metrics, next http.RoundTripper, address string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.Transport("main", next).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if wantErr := next == answer(0); (err != nil) != wantErr {
		t.Errorf("%s: error %v", address, err)
	}
}

// scrape returns the exposed text, without the durations of requests, which are not deterministic.
func scrape(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if !strings.Contains(f.GetName(), "_latency_") {
			if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String()
}

func TestMetricsThatCannotBeRegistered(t *testing.T) {
	if _, err := NewMetrics(MetricsOptions{Prefix: "my-operator_"}); err == nil ||
		!strings.Contains(err.Error(), `prefix "my-operator_" is not valid`) {
		t.Errorf("error %v", err)
	}
	registry := prometheus.NewRegistry()
	busy(t, registry, DefaultPrefix)
	if _, err := NewMetrics(MetricsOptions{Registry: registry, Prefix: DefaultPrefix}); err == nil {
		t.Error("the same metrics twice are accepted")
	}
}

func TestMetricsWithoutRegistry(t *testing.T) { busy(t, nil, "") }

func TestNoQueueActions(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(MetricsOptions{Registry: registry, NoQueueActions: true})
	if err != nil {
		t.Fatal(err)
	}
	m.QueueAction("main", "Add", time.Second)
	if text := scrape(t, registry); strings.Contains(text, "tasks_queue_action") {
		t.Error(text)
	}
}

func TestURLTemplate(t *testing.T) {
	for path, want := range map[string]string{
		"/version":                      "/version",
		"/api":                          "/api",
		"/api/v1":                       "/api/v1",
		"/apis":                         "/apis",
		"/apis/apps/v1":                 "/apis/apps/v1",
		"/api/v1/pods":                  "/api/v1/pods",
		"/api/v1/nodes/n1":              "/api/v1/nodes/{name}",
		"/api/v1/nodes/n1/status":       "/api/v1/nodes/{name}/status",
		"/api/v1/namespaces":            "/api/v1/namespaces",
		"/api/v1/namespaces/a":          "/api/v1/namespaces/{name}",
		"/api/v1/namespaces/a/finalize": "/api/v1/namespaces/{name}/finalize",
		"/api/v1/namespaces/a/pods":     "/api/v1/namespaces/{namespace}/pods",
		"/api/v1/namespaces/a/pods/b":   "/api/v1/namespaces/{namespace}/pods/{name}",
		"/api/v1/namespaces/a/services/b/proxy/c/d":     "/api/v1/namespaces/{namespace}/services/{name}/proxy",
		"/apis/apps/v1/namespaces/a/deployments/b":      "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
		"/apis/example.com/v1/crontabs/b/status":        "/apis/example.com/v1/crontabs/{name}/status",
		"/k8s/clusters/c-1/api/v1/namespaces/a/pods/b":  "/k8s/clusters/c-1/api/v1/namespaces/{namespace}/pods/{name}",
		"/api/v1/pods?watch=1&labelSelector=a%3Db&zz=1": "/api/v1/pods?labelSelector={value}&watch={value}&zz={value}",
	} {
		u, err := url.Parse("https://example.com:6443" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := urlTemplate(u); got != "https://example.com:6443"+want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// brokenMetrics are as wrong as metrics can be.
type brokenMetrics struct{}

func (brokenMetrics) Describe(chan<- *prometheus.Desc) {}
func (brokenMetrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("fine", "fine", nil, nil), prometheus.GaugeValue, 1)
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "broken", nil, nil), errors.New("no value"))
}

func TestHandlers(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	registry := NewRegistry()
	busy(t, registry, DefaultPrefix)
	for name, served := range map[string]struct {
		handler    http.Handler
		has, lacks []string
	}{
		"operator": {MetricsHandler(registry, log),
			[]string{"shell_operator_live_ticks 3", "go_goroutines", "process_start_time_seconds", "promhttp_metric_handler_requests_total"}, nil},
		"hooks": {HookMetricsHandler(brokenMetrics{}, log), []string{"fine 1", "promhttp_metric_handler_errors_total"},
			[]string{"go_goroutines", "shell_operator"}},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
		served.handler.ServeHTTP(w, req)
		text := w.Body.String()
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: status %d, error %v", name, w.Code, err)
		}
		for _, has := range served.has {
			if !strings.Contains(text, has) {
				t.Errorf("%s: %q is not in\n%s", name, has, text)
			}
		}
		for _, lacks := range served.lacks {
			if strings.Contains(text, lacks) {
				t.Errorf("%s: %q is in\n%s", name, lacks, text)
			}
		}
	}
}
