package telemetry

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func begin(t *testing.T, o TracingOptions) (*Tracing, *test.Text) {
	t.Helper()
	log := &test.Text{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	tracing, err := NewTracing(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tracing, log
}

func (t *Tracing) span(name string) {
	_, span := t.Tracer("test").Start(context.Background(), name)
	span.End()
}

func TestSend(t *testing.T) {
	for name, encrypted := range map[string]bool{"TLS": true, "insecure": false} {
		t.Run(name, func(t *testing.T) {
			receiver := otlp.NewReceiver(t, encrypted)
			endpoint := receiver.Address
			if !encrypted {
				endpoint = "http://" + endpoint
			}
			tracing, log := begin(t, TracingOptions{Endpoint: endpoint, Token: "sesame", CA: receiver.CA})
			tracing.span("one")
			tracing.span("two")
			tracing.Close(t.Context())
			spans := receiver.Until(t, "the spans", func(all []otlp.Span) bool { return len(all) == 2 })
			if spans[0].Name != "one" || spans[0].Tracer != "test" {
				t.Errorf("got %v", spans[0])
			}
			if got := receiver.Authorization(); got != "Bearer sesame" {
				t.Errorf("it was let in by %q", got)
			}
			if log.String() != "" {
				t.Error(log.String())
			}
		})
	}
}

// By default the token goes over TLS only.
func TestEncryptedByDefault(t *testing.T) {
	receiver := otlp.NewReceiver(t, false)
	tracing, log := begin(t, TracingOptions{Endpoint: receiver.Address, Token: "sesame"})
	tracing.span("one")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	tracing.Close(ctx)
	log.Until(t, "Traces cannot be sent", 1) // after Close, else it is in the log of the next test
	if receiver.Authorization() != "" {
		t.Error("the token was sent in the clear")
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("there is no warning: %q", log.String())
	}
}

// Trouble is logged once in a minute.
func TestTrouble(t *testing.T) {
	receiver := otlp.NewReceiver(t, false)
	receiver.Refuse(true)
	tracing, log := begin(t, TracingOptions{Endpoint: "http://" + receiver.Address})
	for range 3 {
		tracing.span("x")
		otel.Handle(tracing.provider.ForceFlush(t.Context())) // as after an export in the background
	}
	if n := strings.Count(log.String(), "Traces cannot be sent"); n != 1 || !strings.Contains(log.String(), "no spans today") {
		t.Errorf("%d records: %s", n, log.String())
	}
	tracing.Close(t.Context())
}

// Close does not wait for a receiver that is not there.
func TestReceiverUnreachable(t *testing.T) {
	tracing, log := begin(t, TracingOptions{Endpoint: "http://127.0.0.1:1"})
	tracing.span("x")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	tracing.Close(ctx)
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	log.Until(t, "Traces cannot be sent", 1)
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("there is no warning: %q", log.String())
	}
}

func TestWrongOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []TracingOptions{{Endpoint: "collector"}, {Endpoint: "https://collector:4317"}, {Endpoint: "c:1", CA: "/no/such/file"},
		{Endpoint: "c:1", CA: empty}} {
		if _, err := NewTracing(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
