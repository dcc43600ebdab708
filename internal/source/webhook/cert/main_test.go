package cert

import (
	"context"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// recorder is a log that tests read and wait on. No line of it may show a key or the content of a Secret.
type recorder struct {
	test.Text
	t *testing.T
}

func record(t *testing.T) (*slog.Logger, *recorder) {
	r := &recorder{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", r)
		}
	})
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})), r
}

func (r *recorder) Write(line []byte) (int, error) {
	if s := string(line); strings.Contains(s, "-----") || strings.Contains(s, "LS0tLS1") {
		r.t.Errorf("the log shows PEM: %s", s)
	}
	return r.Text.Write(line)
}

// says waits for a text.
func (r *recorder) says(text string) {
	r.t.Helper()
	r.Until(r.t, text, 1)
}

// count is how many lines have a level.
func (r *recorder) count(level slog.Level) int {
	return strings.Count(r.String(), "level="+level.String())
}

// run runs a Source until the test ends.
func run(t *testing.T, s *Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// becomes waits until the bundle is another one.
func becomes(t *testing.T, s *Source, good func(bundle []byte) bool) {
	t.Helper()
	for {
		changed := s.Changed()
		if good(s.Bundle()) {
			return
		}
		test.Receive(t, changed, "change of the bundle")
	}
}

// leaf is the certificate that a Source shows.
func leaf(t *testing.T, s *Source) *x509.Certificate {
	t.Helper()
	c, err := s.Certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

// trusts fails unless a caller that trusts the bundle accepts the certificate at a time.
func trusts(t *testing.T, bundle []byte, c *x509.Certificate, name string, at time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at}); err != nil {
		t.Errorf("a caller would not accept the certificate: %v", err)
	}
}
