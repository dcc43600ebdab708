// Package tracing sends OpenTelemetry traces to a receiver, by OTLP over gRPC.
//
// Callers may rely on this:
//   - Nothing waits for the receiver: spans are collected and sent in the background. Too many of them are dropped.
//   - The connection is encrypted unless the caller says otherwise; the token goes nowhere else.
//   - When spans cannot be sent, the log tells once that, and why, and once that it works again.
//   - Close sends what is left.
package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
)

// Options of Tracing. Endpoint and Log are required.
type Options struct {
	// Endpoint is "host:port".
	Endpoint string
	// Token is sent as a bearer token.
	Token string
	// Insecure sends spans, and the token, without encryption. CA is a file with certificates that are trusted instead
	// of the system's.
	Insecure bool
	CA       string
	// Instance is the name of this process, such as that of its Pod.
	Instance string
	Log      *slog.Logger
}

// Tracing makes spans and sends them.
type Tracing struct {
	provider *sdk.TracerProvider
	log      *slog.Logger
	// end ends attempts to send.
	end context.CancelFunc
}

// sendTimeout ends an attempt to send spans, and patience all attempts for the same ones.
const (
	sendTimeout = 10 * time.Second
	patience    = 30 * time.Second
)

// New does not reach for the receiver yet.
func New(ctx context.Context, o Options) (*Tracing, error) {
	if _, _, err := net.SplitHostPort(o.Endpoint); err != nil {
		return nil, fmt.Errorf("the endpoint for traces is %q: give host:port, without a scheme: %w", o.Endpoint, err)
	}
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(o.Endpoint), otlptracegrpc.WithTimeout(sendTimeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 10 * time.Second, MaxElapsedTime: patience,
		}),
	}
	if o.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.CA != "" {
			text, err := os.ReadFile(o.CA)
			if err != nil {
				return nil, fmt.Errorf("cannot read the CA of the receiver of traces: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(text) {
				return nil, fmt.Errorf("the CA of the receiver of traces, %q, has no certificates: give a PEM file", o.CA)
			}
		}
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config)))
	}
	if o.Token != "" {
		options = append(options, otlptracegrpc.WithHeaders(map[string]string{"Authorization": "Bearer " + o.Token}))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot send traces: %w", err)
	}
	// What the library cannot return, such as spans that the receiver refused, goes to a place for the whole process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("Trouble with traces", "error", err.Error()) }))
	attributes := []attribute.KeyValue{attribute.String("service.name", "shell-operator"), attribute.String("k8s.deployment.name", "shell-operator")}
	if o.Instance != "" {
		attributes = append(attributes, attribute.String("service.instance.id", o.Instance))
	}
	ended, end := context.WithCancel(context.Background())
	return &Tracing{log: o.Log, end: end, provider: sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(resource.NewSchemaless(attributes...)),
		sdk.WithBatcher(&spoken{SpanExporter: exporter, ended: ended, log: o.Log.With("endpoint", o.Endpoint)}, sdk.WithExportTimeout(patience+sendTimeout)),
	)}, nil
}

// Tracer returns what makes spans for a part of the program.
func (t *Tracing) Tracer(name string) trace.Tracer { return t.provider.Tracer(name) }

// Close sends what is left until ctx ends.
func (t *Tracing) Close(ctx context.Context) {
	defer t.end() // the library would go on for a while
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("The last traces could not be sent", "error", err.Error())
	}
}

// spoken is an exporter whose errors are logged, once for each time of trouble.
type spoken struct {
	sdk.SpanExporter
	log *slog.Logger
	// ended ends with Close.
	ended context.Context

	mu      sync.Mutex
	trouble bool
}

func (s *spoken) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.trouble:
		s.log.Warn("Traces cannot be sent, they are dropped", "spans", len(spans), "error", err.Error())
	case err == nil && s.trouble:
		s.log.Info("Traces are sent again")
	}
	s.trouble = err != nil
	return nil
}
