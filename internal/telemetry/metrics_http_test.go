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

// TestScrapesInFlight: the fourth scrape is rejected while three run, and the second one of an address, unless that is a loopback address.
func TestScrapesInFlight(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	h := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-end }), time.Hour,
		slog.New(slog.DiscardHandler))
	from := func(address string) *http.Request {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.RemoteAddr = address
		return r
	}
	rejected := func(address string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, from(address))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d, header %v", address, w.Code, w.Header())
		}
	}
	var running sync.WaitGroup
	begin := func(address string) {
		running.Go(func() { h.ServeHTTP(httptest.NewRecorder(), from(address)) })
		<-began
	}
	begin("10.0.0.1:1")
	rejected("10.0.0.1:2")
	begin("[::1]:1")
	begin("[::1]:2")
	rejected("10.0.0.2:1")
	close(end)
	running.Wait()
	end = make(chan struct{})
	begin("10.0.0.1:3")
	close(end)
	running.Wait()
}
