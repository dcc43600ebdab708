package telemetry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// manyMetrics fill the buffers of a connection.
type manyMetrics struct{}

func (manyMetrics) Describe(chan<- *prometheus.Desc) {}
func (manyMetrics) Collect(to chan<- prometheus.Metric) {
	for i := range 2000 {
		d := prometheus.NewDesc(fmt.Sprint("m", i), strings.Repeat("help", 2500), nil, nil)
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1)
	}
}

// TestSlowScrapes: scrapers that do not read occupy all slots, for a bounded time. Then others are served, and there is one record.
func TestSlowScrapes(t *testing.T) {
	var log bytes.Buffer
	h := HookMetricsHandler(manyMetrics{}, slog.New(slog.NewTextHandler(&log, nil)))
	server := httptest.NewServer(h)
	defer server.Close()
	get := func() (int, string) {
		res, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	if status, text := get(); status != http.StatusOK || !strings.Contains(text, "m1999 1") {
		t.Fatalf("status %d, %d bytes", status, len(text))
	}

	short := httptest.NewServer(limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for { // until it is aborted
			_, _ = w.Write(make([]byte, 1<<20))
		}
	}), 500*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))))
	slow := func() *bufio.Reader {
		c, err := net.Dial("tcp", short.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return bufio.NewReader(c)
	}
	var first *bufio.Reader
	for range scrapesInFlight {
		first = slow()
		if line, err := first.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	// The slots may be free again on a slow machine, so that only what follows is certain.
	if line, err := slow().ReadString('\n'); err != nil || !strings.Contains(line, "503") && !strings.Contains(line, "200") {
		t.Errorf("one scraper too many gets %q, %v", line, err)
	}
	_, _ = io.Copy(io.Discard, first) // until the server has aborted it
	if line, err := slow().ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("after the time limit, a scraper gets %q, %v", line, err)
	}
	short.CloseClientConnections()
	short.Close() // the handlers have ended
	if strings.Count(log.String(), "A scrape was not read to its end") != 1 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("log %s", log.String())
	}
}

// TestScrapesInFlight: the fourth scrape is rejected while three run.
func TestScrapesInFlight(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-end }), time.Hour,
		slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	for range scrapesInFlight {
		running.Go(func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)) })
		<-began
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	close(end)
	running.Wait()
}
