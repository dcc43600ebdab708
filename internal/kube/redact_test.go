package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// testdata/messages.txt has messages of the API server (1.36), and what is left of each. Values begin with M4RKER; the values of webhooks,
// policies and rules are kept.
func TestRedactMessages(t *testing.T) {
	const file = "testdata/messages.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "→") {
			continue
		}
		message, secret := strings.CutPrefix(strings.ReplaceAll(line, `\n`, "\n"), "of a Secret: ")
		left, kept := (redactor{secret: secret}).message(message)
		switch {
		case !kept && left == "":
			left = "nothing"
		case left == message:
			left = "all of it"
		}
		fmt.Fprintf(&all, "%s\n→ %s\n\n", line, left)
	}
	golden.Compare(t, file, all.String())
	got, _ := (redactor{}).message(`admission webhook "a" denied the request: ` + strings.Repeat("é", 1000))
	if len(got) > maxMessage || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// What is left without a message that is kept: the object, the reason, the status and the fields.
func TestRedactStatus(t *testing.T) {
	for _, row := range []struct {
		status metav1.Status
		want   string
	}{
		{metav1.Status{Message: `M4RKER`, Reason: metav1.StatusReasonBadRequest, Code: 400},
			`secrets n/db: BadRequest (status 400; the text of the API server may quote values, kubectl shows it)`},
		{metav1.Status{Message: `M4RKER`, Reason: "the M4RKER", Code: 418},
			`secrets n/db: I'm a teapot (status 418; the text of the API server may quote values, kubectl shows it)`},
		{metav1.Status{Message: `M4RKER`, Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{
			Kind: "Deployment", Group: "apps", Name: "web", Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.selector", Message: `Invalid value: "M4RKER": field is immutable`},
				{Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.type", Message: `Unsupported value: "M4RKER"`},
				{Type: metav1.CauseTypeFieldValueRequired, Field: "spec.name", Message: "Required value"},
				{Type: metav1.CauseTypeFieldValueInvalid, Field: "a", Message: `Invalid value: "M4RKER\": a valid label": name part must be it`},
				{Type: metav1.CauseTypeFieldValueInvalid, Field: "b", Message: `Invalid value: "M4RKER": a valid M4RKER must be`},
			}}}, `Deployment.apps "web" is invalid: spec.selector: field is immutable; ` +
			`spec.type: FieldValueNotSupported; spec.name: Required value; a: name part must be it; b: FieldValueInvalid`},
	} {
		if (redactor{about: "secrets n/db"}).status(&row.status); row.status.Message != row.want ||
			strings.Contains(row.status.String(), "M4RKER") {
			t.Errorf("got  %s\nwant %s", row.status.String(), row.want)
		}
	}
}

// roundTrip is a server that needs no network.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }

// request sends a Secret to a server that answers in this way.
func request(t *testing.T, status int, header http.Header, body []byte) error {
	t.Helper()
	client, err := NewClient(&rest.Config{Host: "https://cluster", Transport: roundTrip(func(req *http.Request) *http.Response {
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: req}
	})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Send(context.Background(), client.Post().AbsPath("/api/v1/namespaces/n/secrets").
		SetHeader("Content-Type", "application/json").Body([]byte(`{"stringData": {"a": "M4RKER-sent"}}`)))
	return err
}

// The client returns errors without values, and of the same type.
func TestRedactResponses(t *testing.T) {
	jsonBody := http.Header{"Content-Type": {"application/json"}}
	cause := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "data.a", Message: `Invalid value: "M4RKER": no`}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: `Secret "db" is invalid: data.a: Invalid value: "M4RKER": no`,
		Details: &metav1.StatusDetails{Kind: "Secret", Name: "db", Causes: []metav1.StatusCause{cause, cause}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = request(t, 422, jsonBody, body)
	if want := `Secret "db" is invalid: data.a: FieldValueInvalid`; !apierrors.IsInvalid(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) || strings.Contains(string(mustMarshal(t, err)), "M4RKER") {
		t.Errorf("its details: %s", mustMarshal(t, err))
	}
	for name, text := range map[string]string{
		"a page of a proxy":   `<p>M4RKER-sent is not allowed: "M4RKER"</p>`,
		"no status":           `{"M4RKER": "M4RKER-sent"}`,
		"JSON without an end": `{"kind": "Status", "message": "M4RKER`,
		"nothing":             ``,
		"too much":            strings.Repeat("M4RKER", maxErrorBody/6+1),
	} {
		for _, header := range []http.Header{{}, jsonBody, {"Content-Type": {"text/html"}}} {
			if err := request(t, 403, header, []byte(text)); !apierrors.IsForbidden(err) ||
				strings.Contains(string(mustMarshal(t, err)), "M4RKER") || strings.Contains(err.Error(), "M4RKER") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func mustMarshal(t *testing.T, err error) []byte {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	text, err := json.Marshal(status.Status())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// warnings collects the warnings that a client logs.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// Warnings of API servers and admission webhooks go to the log.
func TestRedactWarnings(t *testing.T) {
	var logged warnings
	client, err := NewClient(&rest.Config{Host: "https://cluster", WarningHandler: &logged,
		Transport: roundTrip(func(req *http.Request) *http.Response {
			header := http.Header{"Warning": {`299 - "unknown field \"spec.a\""`, `299 - "password \"long\" is weak"`}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader("{}")), Request: req}
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Send(t.Context(), client.Get().AbsPath("/version")); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(logged.texts, "; "), `unknown field "spec.a"; password "long" is weak`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An error in the stream of a watch is a status, too.
func TestRedactEvents(t *testing.T) {
	status := metav1.Status{Message: `"M4RKER" is no number`, Code: 500}
	if Redact(&status); status.Message !=
		`the request: Internal Server Error (status 500; the text of the API server may quote values, kubectl shows it)` {
		t.Errorf("got %s", status.Message)
	}
}
