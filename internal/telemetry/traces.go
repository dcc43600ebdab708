package telemetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"

	"github.com/shell-operator/shell-operator/internal/telemetry/logonce"
)

// TracingOptions configure Tracing. Endpoint and Log are required.
type TracingOptions struct {
	// Endpoint is "host:port", or http://host:port for no TLS, also for the token.
	Endpoint string
	// Token is sent as a bearer token.
	Token string
	// CA is a file with certificates that replace the system's roots.
	CA string
	// Instance is the name of this process, such as the name of its Pod.
	Instance string
	Log      *slog.Logger
}

// Tracing creates tracers and exports their spans to an OpenTelemetry collector, by OTLP over gRPC. Nothing blocks on the collector: spans
// are buffered and exported in the background, and a full buffer drops spans. The connection is encrypted by default, and the token is sent
// to the collector only. A failing export is logged at most once a minute.
type Tracing struct {
	provider *sdk.TracerProvider
	exporter sdk.SpanExporter
	log      *slog.Logger
}

// sendTimeout limits one attempt to export spans, retryTimeout all attempts for the same ones.
const (
	sendTimeout  = 10 * time.Second
	retryTimeout = 30 * time.Second
)

// NewTracing does not connect to the collector.
func NewTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	endpoint, insecure := strings.CutPrefix(o.Endpoint, "http://")
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		return nil, fmt.Errorf("the endpoint for traces is %q: set host:port, or http://host:port without TLS: %w", o.Endpoint, err)
	}
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithTimeout(sendTimeout),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 10 * time.Second, MaxElapsedTime: retryTimeout,
		}),
	}
	if insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.CA != "" {
			text, err := os.ReadFile(o.CA)
			if err != nil {
				return nil, fmt.Errorf("cannot read the CA of the trace collector: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(text) {
				return nil, fmt.Errorf("the CA of the trace collector, %q, has no certificates: set a PEM file", o.CA)
			}
		}
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config)))
	}
	if o.Token != "" {
		options = append(options, otlptracegrpc.WithHeaders(map[string]string{"Authorization": "Bearer " + o.Token}))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot export traces: %w", err)
	}
	// Errors of exports in the background go to a handler of the whole process.
	failing := logonce.Dedup{Every: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if suppressed, due := failing.Due("", ""); due {
			o.Log.Warn("Traces cannot be sent, they are dropped", "endpoint", o.Endpoint, "error", err.Error(), "again", suppressed)
		}
	}))
	attributes := []attribute.KeyValue{attribute.String("service.name", "shell-operator"),
		attribute.String("k8s.deployment.name", "shell-operator")}
	if o.Instance != "" {
		attributes = append(attributes, attribute.String("service.instance.id", o.Instance))
	}
	return &Tracing{log: o.Log, exporter: exporter, provider: sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(resource.NewSchemaless(attributes...)),
		sdk.WithBatcher(exporter, sdk.WithExportTimeout(retryTimeout+sendTimeout)),
	)}, nil
}

// Tracer returns the tracer of a part of the program.
func (t *Tracing) Tracer(name string) trace.Tracer { return t.provider.Tracer(name) }

// Close exports the spans that are left, until ctx ends.
func (t *Tracing) Close(ctx context.Context) {
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("The last traces could not be sent", "error", err.Error())
		_ = t.exporter.Shutdown(ctx) // the library would retry after the end of ctx
	}
}
