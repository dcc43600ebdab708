package kubeevent

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Events of hooks are in the namespace of their object, and kubectl finds them by its uid. Objects without a namespace have theirs in
// "default".
func TestHookEvents(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	client, err := kube.NewClient(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kubectl(t, "-n", namespace, "create", "configmap", "settings")
	r := New(Options{Client: client, Instance: "ops.shell-operator", Log: slog.New(slog.DiscardHandler),
		Dropped: func(string) { t.Error("dropped") }})
	settings := Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "settings"}
	r.Record("a.sh", Event{settings, "Warning", "Stale", "Check",
		"two days old"})
	r.Record("a.sh", Event{Reference{APIVersion: "v1", Kind: "Namespace", Name: namespace}, "Normal", "Counted", "Count", ""})
	r.ExhaustedFor(Reference{Kind: "ConfigMap", Namespace: namespace, Name: "settings"}, "no attempt is left")
	if next := r.Flush(context.Background()); next != 0 {
		t.Errorf("%s left", next)
	}
	got := cluster.Kubectl(t, "-n", namespace, "describe", "configmap", "settings")
	if !strings.Contains(got, "Stale") || !strings.Contains(got, "two days old") || !strings.Contains(got, "no attempt is left") {
		t.Error(got)
	}
	got = cluster.Kubectl(t, "get", "events.events.k8s.io", "-n", "default", "-o",
		`jsonpath={range .items[?(@.regarding.name=="`+namespace+`")]}{.reason} {.action} {.reportingController} {.reportingInstance}{end}`)
	if got != "Counted Count shell-operator ops.shell-operator" {
		t.Error(got)
	}
}

// lossy answers the first request that creates something with an error, after the API server has carried it out.
type lossy struct {
	http.RoundTripper
	lost atomic.Bool
}

func (l *lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost && !l.lost.Swap(true) {
		_ = res.Body.Close()
		return nil, syscall.ECONNRESET
	}
	return res, err
}

// An Event whose creation was not confirmed is not created twice, and gets what has happened since.
func TestLostAnswer(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	config := cluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &lossy{RoundTripper: next} })
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Client: client, Instance: "ops.shell-operator", Log: slog.New(slog.DiscardHandler),
		Dropped: func(string) { t.Error("dropped") }})
	event := Event{Regarding: Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "none"}, Type: "Normal",
		Reason: "Seen", Action: "Look", Note: "once"}
	r.Record("a.sh", event)
	if next := r.Flush(t.Context()); next == 0 {
		t.Error("the answer was not lost")
	}
	r.Record("a.sh", event)
	for _, l := range r.lines {
		l.notBefore = l.first
	}
	if next := r.Flush(t.Context()); next != 0 {
		t.Errorf("%s left", next)
	}
	got := cluster.Kubectl(t, "get", "events.events.k8s.io", "-n", namespace, "-o",
		`jsonpath={range .items[?(@.regarding.name=="none")]}{.note} ×{.series.count} {end}`)
	if got != "once ×2 " {
		t.Errorf("the Events are %q", got)
	}
}
