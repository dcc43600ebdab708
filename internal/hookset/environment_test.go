package hookset

import (
	"slices"
	"strings"
	"testing"
)

// Credentials of the operator's traces reach hooks only by name.
func TestCredentialsOfTraces(t *testing.T) {
	const headers, token = "OTEL_EXPORTER_OTLP_HEADERS=a=s", "TRACING_OTLP_AUTH_TOKEN=s"
	const others = "OTEL_SERVICE_NAME=x TRACING_OTLP_ENDPOINT=h:1"
	const all = headers + " OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=s " + token + " " + others
	for patterns, want := range map[string]string{
		"": others, "*": others, "!*_TOKEN": others, "OTEL_*": headers + " OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=s OTEL_SERVICE_NAME=x",
		"* " + "TRACING_OTLP_AUTH_TOKEN": token + " " + others, "OTEL_EXPORTER_OTLP_HEADERS": headers, "OTEL_EXPORTER_OTLP_HEADERS *": headers +
			" " + others,
	} {
		if got := Inherited(strings.Fields(all), strings.Fields(patterns)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q leaves %q, not %q", patterns, got, want)
		}
	}
}

func TestInherited(t *testing.T) {
	const all = "PATH=/bin APP_ONE=1 APP_TOKEN=s OTHER_TOKEN=s EMPTY= URL=a=b KUBECONFIG=/k"
	for _, test := range []struct{ patterns, want string }{
		{"", all},
		{"URL", "PATH=/bin URL=a=b KUBECONFIG=/k"},
		{"APP_* EMPTY", "PATH=/bin APP_ONE=1 APP_TOKEN=s EMPTY= KUBECONFIG=/k"},
		{"APP_* !*_TOKEN", "PATH=/bin APP_ONE=1 KUBECONFIG=/k"},
		{"!*_TOKEN APP_*", "PATH=/bin APP_ONE=1 APP_TOKEN=s KUBECONFIG=/k"},
		{"!*_TOKEN", "PATH=/bin APP_ONE=1 EMPTY= URL=a=b KUBECONFIG=/k"},
		{"* !KUBECONFIG", "PATH=/bin APP_ONE=1 APP_TOKEN=s OTHER_TOKEN=s EMPTY= URL=a=b"},
		{"NO_SUCH", "PATH=/bin KUBECONFIG=/k"},
	} {
		got := Inherited(strings.Fields(all), strings.Fields(test.patterns))
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%q leaves %q, not %q", test.patterns, got, test.want)
		}
	}
}

// Names of variables may have any character but "=": none of them gets past a pattern.
func TestInheritedOddNames(t *testing.T) {
	env := []string{"SECRET/A=1", "SECRET/B/C=1", "SECRET.D=1", "SECRET E=1", "SECRET-=1", "SECRET\n=1", "SECRET\xff=1", "=1", "KEPT/A=1"}
	if got := Inherited(env, []string{"!SECRET*"}); !slices.Equal(got, []string{"=1", "KEPT/A=1"}) {
		t.Errorf("what is left is %q", got)
	}
	if got := Inherited(env, []string{"KEPT/*"}); !slices.Equal(got, []string{"KEPT/A=1"}) {
		t.Errorf("what is left is %q", got)
	}
}
