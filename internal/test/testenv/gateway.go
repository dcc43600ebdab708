package testenv

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Gateway stands between an operator and the API server, understands HTTP, and can make trouble. A Proxy only breaks
// the line; a Gateway is slow, answers for the API server, and breaks off in the middle of an answer.
type Gateway struct {
	server *httptest.Server
	to     *httputil.ReverseProxy
	// between is the Interceptor, nil if there is none.
	between atomic.Pointer[Interceptor]

	mu      sync.Mutex
	trouble Trouble
	random  *rand.Rand
	changes []Change
	// refused counts requests that the gateway has answered itself, broken answers of the API server that were cut off.
	refused, broken int
	// watches counts the refused requests that were watches.
	watches int
	// more is closed and replaced whenever there are more of these.
	more chan struct{}
}

// Change is a request that may change something.
type Change struct {
	// At is when it came to the Gateway.
	At           time.Time
	Method, Path string
	// Token is the bearer token of the client; empty if it has none.
	Token string
	// Status is what the API server has answered; 0 as long as it has not.
	Status int
}

// Trouble is what a Gateway does to requests; the zero value is none.
type Trouble struct {
	// Delay is added to each request, and to each piece of an answer.
	Delay time.Duration
	// WatchDelay is added to each piece of the answer to a watch: what comes meanwhile follows as one piece.
	WatchDelay time.Duration
	// Status is answered to a share of the requests, instead of asking the API server.
	Status int
	Share  float64
	// CutAfter breaks off an answer after at most so many bytes; each time it is another number.
	CutAfter int
}

// Interceptor answers a request, itself or by next, which asks the API server.
type Interceptor func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Intercept sends each request from now on through a function; those that have begun are not concerned.
func (g *Gateway) Intercept(do Interceptor) { g.between.Store(&do) }

// NewGateway returns a Gateway to the API server and a kubeconfig that leads through it. All that is random follows
// from the seed and the order of requests.
func NewGateway(t testing.TB, kubeconfig string, seed uint64) (*Gateway, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cluster := config.Clusters["testcluster"]
	target, err := url.Parse(cluster.Server)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(&rest.Config{Host: cluster.Server,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData}})
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{random: rand.New(rand.NewPCG(seed, 0)), more: make(chan struct{})}
	quiet := log.New(io.Discard, "", 0)
	g.to = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		// The connection breaks when the API server is down: the gateway sends no response of its own.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	g.server = httptest.NewUnstartedServer(g)
	g.server.EnableHTTP2 = true
	g.server.Config.ErrorLog = quiet
	g.server.StartTLS()
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
		if idle, ok := transport.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	})
	cluster.Server = g.server.URL
	cluster.CertificateAuthorityData = certificatePEM(g.server.Certificate())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return g, path
}

func certificatePEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// Make sets the trouble for what happens from now on; answers that have begun are concerned as well.
func (g *Gateway) Make(trouble Trouble) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trouble = trouble
}

// Cut breaks all connections; new ones are taken.
func (g *Gateway) Cut() { g.server.CloseClientConnections() }

func (g *Gateway) now() (tr Trouble, chance float64, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.trouble.CutAfter > 0 {
		limit = 1 + g.random.IntN(g.trouble.CutAfter)
	}
	return g.trouble, g.random.Float64(), limit
}

// Changes returns the requests so far that may change something, in the order in which they came.
func (g *Gateway) Changes() []Change {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.changes)
}

// Made returns how many requests the Gateway has refused instead of asking the API server, and how many answers it has
// broken off.
func (g *Gateway) Made() (refused, broken int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused, g.broken
}

// Until waits for a request for which done returns true.
func (g *Gateway) Until(t testing.TB, what string, done func(Change) bool) {
	t.Helper()
	g.until(t, what, func() bool { return slices.ContainsFunc(g.changes, done) })
}

func (g *Gateway) until(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !g.within(test.Patience, true, done) {
		t.Fatalf("waited for %s: it did not come", what)
	}
}

// WatchRefused waits until a watch has been refused, but not longer than this.
func (g *Gateway) WatchRefused(within time.Duration) bool {
	return g.within(within, false, func() bool { return g.watches > 0 })
}

// AnswerBroken waits until an answer has been broken off, but not longer than this.
func (g *Gateway) AnswerBroken(within time.Duration) bool {
	return g.within(within, false, func() bool { return g.broken > 0 })
}

// within calls done with the lock held. The time begins again with all that happens if it is to be renewed.
func (g *Gateway) within(patience time.Duration, renewed bool, done func() bool) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		g.mu.Lock()
		found, more := done(), g.more
		g.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-more:
			if renewed {
				late.Reset(patience)
			}
		case <-late.C:
			return false
		}
	}
}

// note keeps a request that may change something, and returns what takes its status.
func (g *Gateway) note(r *http.Request) func(status int) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return func(int) {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := len(g.changes)
	g.changes = append(g.changes, Change{At: time.Now(), Method: r.Method, Path: r.URL.Path,
		Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")})
	g.wake()
	return func(status int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.changes[at].Status = status
	}
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answered := g.note(r)
	trouble, chance, limit := g.now()
	pause(r, trouble.Delay)
	if trouble.Status != 0 && chance < trouble.Share {
		g.count(&g.refused)
		if r.URL.Query().Get("watch") != "" {
			g.count(&g.watches)
		}
		w.Header().Set("Content-Type", "application/json")
		if trouble.Status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(trouble.Status)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the gateway makes trouble","code":%d}`, trouble.Status)
		return
	}
	w = &troubled{ResponseWriter: w, gateway: g, request: r, left: limit, answered: answered}
	if do := g.between.Load(); do != nil {
		(*do)(w, r, g.to)
		return
	}
	g.to.ServeHTTP(w, r)
}

// wake wakes the waiting tests. The caller holds mu.
func (g *Gateway) wake() {
	close(g.more)
	g.more = make(chan struct{})
}

// count adds one to refused, watches or broken.
func (g *Gateway) count(what *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*what++
	g.wake()
}

func pause(r *http.Request, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// troubled is an answer on its way.
type troubled struct {
	http.ResponseWriter
	gateway *Gateway
	request *http.Request
	// left are the bytes until the line breaks; 0 means that it was not to break when the answer began.
	left int
	// answered receives the status.
	answered func(status int)
}

func (t *troubled) WriteHeader(status int) {
	t.answered(status)
	t.ResponseWriter.WriteHeader(status)
}

func (t *troubled) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *troubled) Write(b []byte) (int, error) {
	trouble, _, limit := t.gateway.now()
	if pause(t.request, trouble.Delay); t.request.URL.Query().Get("watch") != "" {
		pause(t.request, trouble.WatchDelay)
	}
	if trouble.CutAfter == 0 {
		t.left = 0
		return t.ResponseWriter.Write(b)
	}
	if t.left == 0 {
		t.left = limit
	}
	if t.left > len(b) {
		t.left -= len(b)
		return t.ResponseWriter.Write(b)
	}
	t.gateway.count(&t.gateway.broken)
	_, _ = t.ResponseWriter.Write(b[:t.left])
	_ = http.NewResponseController(t.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}
