package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// unanswered is how long a request may have no answer before it is reported.
const unanswered = 10 * time.Second

// Requests observes requests to the API server, including the wait for credentials, and reports those without an answer.
type Requests struct {
	log *slog.Logger
	// plugin is the command of the kubeconfig that provides credentials, or empty.
	plugin string

	mu sync.Mutex
	// open are the requests without an answer, since when.
	open map[*http.Request]time.Time
	// reported: no request has been answered since the last record.
	reported bool
}

// NewRequests returns an observer for clients of a config.
func NewRequests(cfg *rest.Config, log *slog.Logger) *Requests {
	r := &Requests{log: log, open: map[*http.Request]time.Time{}}
	if cfg.ExecProvider != nil {
		r.plugin = cfg.ExecProvider.Command
	}
	return r
}

// wrap observes what a transport sends.
func (r *Requests) wrap(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return observed{r, next}
}

type observed struct {
	*Requests
	next http.RoundTripper
}

func (o observed) RoundTrip(req *http.Request) (*http.Response, error) {
	o.mu.Lock()
	o.open[req] = time.Now()
	o.mu.Unlock()
	late := time.AfterFunc(unanswered, func() { o.report(req) })
	response, err := o.next.RoundTrip(req)
	late.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, req)
	if err == nil {
		o.reported = false
	}
	return response, err
}

func (r *Requests) report(req *http.Request) {
	r.mu.Lock()
	_, open := r.open[req]
	report := open && !r.reported
	r.reported = r.reported || open
	r.mu.Unlock()
	if report {
		r.log.Warn("A request to the API server has had no answer", "method", req.Method, "path", req.URL.Path, "for", unanswered.String(),
			"hint", r.hint())
	}
}

func (r *Requests) hint() string {
	if r.plugin != "" {
		return fmt.Sprintf("check that the credential plugin %q of the kubeconfig ends, and that the API server can be reached", r.plugin)
	}
	return "check that the API server can be reached"
}

// Unanswered describes the oldest request that has had no answer for a while; it is empty without one.
func (r *Requests) Unanswered() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var oldest *http.Request
	for req, since := range r.open {
		if time.Since(since) >= unanswered && (oldest == nil || since.Before(r.open[oldest])) {
			oldest = req
		}
	}
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("a request to the API server (%s %s) has had no answer for %s: %s",
		oldest.Method, oldest.URL.Path, time.Since(r.open[oldest]).Round(time.Second), r.hint())
}
