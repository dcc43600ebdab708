package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	interval = 5 * time.Millisecond // between requests: 200 a second
	tick     = 20 * time.Millisecond
	// Each tick of the test is so long for certificates.
	stride = 2 * time.Minute
	// learning is how long callers take to trust a new bundle, less than the overlap.
	learning = 8 * time.Minute
)

// fastClock is the time that certificates live in.
type fastClock struct{ nanos atomic.Int64 }

func (c *fastClock) now() time.Time           { return time.Unix(0, c.nanos.Load()) }
func (c *fastClock) advance(by time.Duration) { c.nanos.Add(int64(by)) }

// callers are API servers: they trust the caBundle of the webhook configurations, which is updated with a delay.
type callers struct {
	clock *fastClock
	name  string

	mu sync.Mutex // guards what follows
	// learnt are the bundles, oldest first; the first one is trusted now.
	learnt []learntBundle
	// seen are the serial numbers that each server has shown last, and news is closed when they change.
	seen map[string]string
	news chan struct{}

	requests, failed atomic.Int64
}

type learntBundle struct {
	from time.Time
	pem  []byte
}

func (c *callers) learn(bundle []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.now()
	if n := len(c.learnt); n == 0 || !slices.Equal(c.learnt[n-1].pem, bundle) {
		c.learnt = append(c.learnt, learntBundle{now.Add(learning), bundle})
	}
	for len(c.learnt) > 1 && !now.Before(c.learnt[1].from) {
		c.learnt = c.learnt[1:]
	}
}

// verify is what the caller of a webhook does.
func (c *callers) verify(cs tls.ConnectionState) error {
	c.mu.Lock()
	bundle := c.learnt[0].pem
	c.mu.Unlock()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: c.name, CurrentTime: c.clock.now()})
	return err
}

// request sends a request to a server, and records its certificate.
func (c *callers) request(t *testing.T, transport *http.Transport, address string) {
	c.requests.Add(1)
	err := func() error {
		req, err := http.NewRequest(http.MethodGet, "https://"+address, nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if serial := resp.TLS.PeerCertificates[0].SerialNumber.String(); transport.DisableKeepAlives && c.seen[address] != serial {
			c.seen[address] = serial
			close(c.news)
			c.news = make(chan struct{})
		}
		return nil
	}()
	if err != nil {
		c.failed.Add(1)
		t.Errorf("%s: %v", c.clock.now(), err)
	}
}

// awaitSerial waits until a server shows a certificate.
func (c *callers) awaitSerial(t *testing.T, address, serial string) {
	t.Helper()
	for {
		c.mu.Lock()
		seen, news := c.seen[address], c.news
		c.mu.Unlock()
		if seen == serial {
			return
		}
		receive(t, news, "another certificate")
	}
}

func (c *callers) transport(keepAlive bool) *http.Transport {
	connections := 0 // no limit
	if keepAlive {
		// Or a machine that is busy for a moment gets new connections to make on top.
		connections = 4
	}
	return &http.Transport{
		DisableKeepAlives: !keepAlive, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		TLSClientConfig: &tls.Config{ServerName: c.name, InsecureSkipVerify: true, VerifyConnection: c.verify},
	}
}

// serve answers with the certificate of a Source until the test ends.
func serve(t *testing.T, s Source) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.Certificate})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// Two replicas serve 200 requests a second, a quarter of them on new connections (with the race detector, more of them are
// too much for two cores), while their certificate is renewed again and again and their CA twice, over
// one Secret. One of them learns of everything by its watch. Callers trust a new bundle only shortly before the overlap
// ends, and no request fails.
func TestRotationUnderLoad(t *testing.T) {
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	clock := &fastClock{}
	clock.nanos.Store(time.Now().UnixNano())
	hurried := func(o *ManagedOptions) {
		o.Lifetime, o.AuthorityLifetime, o.Overlap, o.now = 90*time.Minute, 6*time.Hour, 10*time.Minute, clock.now
	}
	first, _ := replica(t, c, ns, hurried)
	follower, _ := replica(t, c, ns, hurried)
	leader := first.(*keeper)
	run(t, follower)
	addresses := []string{serve(t, leader), serve(t, follower)}

	load := &callers{clock: clock, name: "hooks." + ns + ".svc", seen: map[string]string{}, news: make(chan struct{})}
	load.learn(leader.Bundle())
	fresh, kept := load.transport(false), load.transport(true)
	defer kept.CloseIdleConnections()

	// Requests belong to the stride in which they begin; time waits for those that began two strides ago.
	var strides [3]sync.WaitGroup
	var current atomic.Int64
	var counting sync.Mutex // so that no request begins in a stride that is waited for
	ctx, stop := context.WithCancel(t.Context())
	var loading sync.WaitGroup
	began := time.Now()
	loading.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Until(began.Add(time.Duration(i) * interval)))
			transport := kept
			if i%4 == 0 {
				transport = fresh
			}
			counting.Lock()
			strides[current.Load()%3].Go(func() { load.request(t, transport, addresses[i/4%2]) })
			counting.Unlock()
		}
	})

	authorities, certificates := map[string]bool{}, map[string]bool{}
	pace := time.NewTicker(tick)
	defer pace.Stop()
	for {
		serials := serialsIn(t, leader.Bundle())
		for _, serial := range serials {
			authorities[serial] = true
		}
		certificates[leaf(t, leader).SerialNumber.String()] = true
		if len(authorities) == 3 && len(serials) == 1 || t.Failed() {
			break // the second change is over: all that the second CA signed has expired
		}
		<-pace.C
		strides[(current.Load()+1)%3].Wait()
		counting.Lock()
		current.Add(1)
		counting.Unlock()
		clock.advance(stride)
		look(t, leader)
		becomes(t, follower, func(bundle []byte) bool { return slices.Equal(bundle, leader.Bundle()) })
		load.awaitSerial(t, addresses[1], leaf(t, leader).SerialNumber.String())
		load.learn(leader.Bundle())
	}
	stop()
	loading.Wait()
	for i := range strides {
		strides[i].Wait()
	}
	took := time.Since(began)
	t.Logf("%d requests in %s (%.0f/s), %d failed; %d CAs and %d certificates in %s of their time", load.requests.Load(), took.Round(time.Millisecond),
		float64(load.requests.Load())/took.Seconds(), load.failed.Load(), len(authorities), len(certificates), time.Duration(clock.nanos.Load()-began.UnixNano()).Round(time.Minute))
	if load.failed.Load() > 0 || len(certificates) < 8 {
		t.Errorf("%d requests failed while there were %d certificates", load.failed.Load(), len(certificates))
	}
}
