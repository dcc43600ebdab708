// Package otlp receives spans in tests, as an OTLP receiver does.
package otlp

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shell-operator/shell-operator/internal/test"
)

// Receiver is an OTLP receiver on the loopback.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	// Address is "host:port", CA a file with the certificate of a receiver that speaks TLS.
	Address, CA string

	mu    sync.Mutex
	spans []Span
	token string
	// refusing makes it refuse all spans.
	refusing bool
	// more is closed and replaced whenever there are more spans.
	more chan struct{}
}

// Span is a span as it was received.
type Span struct {
	*trace.Span
	Tracer     string
	Attributes map[string]string
}

// NewReceiver starts a receiver, which ends with the test.
func NewReceiver(t testing.TB, encrypted bool) *Receiver {
	t.Helper()
	r := &Receiver{more: make(chan struct{})}
	var options []grpc.ServerOption
	if encrypted {
		certificate := test.NewCertificate(t)
		r.CA = filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(r.CA, certificate.CertPEM, 0o600); err != nil {
			t.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&certificate.Certificate)))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Address = listener.Addr().String()
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return r
}

// Export takes spans.
func (r *Receiver) Export(ctx context.Context,
	in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, status.Error(codes.PermissionDenied, "no spans today")
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md.Get("authorization")) > 0 {
		r.token = md.Get("authorization")[0]
	}
	for _, resource := range in.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				r.spans = append(r.spans, Span{s, scope.Scope.Name, texts(s.Attributes)})
			}
		}
	}
	close(r.more)
	r.more = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			all[a.Key] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_DoubleValue:
			all[a.Key] = strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		default:
			all[a.Key] = a.Value.GetStringValue()
		}
	}
	return all
}

// Refuse makes the receiver refuse all spans, or accept them again.
func (r *Receiver) Refuse(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = on
}

// Authorization is the credential of the last sender.
func (r *Receiver) Authorization() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// Until waits until done returns true for the spans so far.
func (r *Receiver) Until(t testing.TB, what string, done func([]Span) bool) []Span {
	t.Helper()
	late := time.NewTimer(test.Patience)
	defer late.Stop()
	for {
		r.mu.Lock()
		spans, more := r.spans, r.more
		r.mu.Unlock()
		if done(spans) {
			return spans
		}
		select {
		case <-more:
		case <-late.C:
			t.Fatal(errors.New("waited for " + what + ": it did not come"))
		}
	}
}
