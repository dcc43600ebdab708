package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Messages of the API server (1.36), and what is left of them. The values begin with M4RKER.
func TestRedactMessages(t *testing.T) {
	for _, message := range []string{
		`secrets "db" already exists`,
		`namespaces "db" not found`,
		`Operation cannot be fulfilled on secrets "db": the object has been modified; please apply your changes to the latest version ` +
			`and try again`,
		`secrets is forbidden: User "alice" cannot create resource "secrets" in API group "" in the namespace "default"`,
		`secrets "db" is forbidden: User "alice" cannot patch resource "secrets/status" in API group "" at the cluster scope: RBAC: roles ` +
			`"a" not found`,
		`failed to create typed patch object (/db; /v1, Kind=Secret): .spec: field not declared in schema`,
		"failed to create typed patch object (/db; apps/v1, Kind=Deployment): errors:\n  .spec.a: field not declared in schema\n  " +
			`.spec.containers[name="web"].b: field not declared in schema`,
		`Secret in version "v1" cannot be handled as a Secret: strict decoding error: unknown field "spec.a", duplicate field "data.a"`,
		`unknown field "spec.selectr"`,
		`Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal number into Go struct field Secret.data of type []uint8`,
		`Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal array into Go struct field PodSpec.a.b of type v1.Affinity`,
		`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "a", field "b[name=\"web\"].c": expected numeric ` +
			`(int or float), field "d": expected string`,
		`Apply failed with 1 conflict: conflict with "kubectl-edit" using v1: .data.a`,
		"Apply failed with 2 conflicts: conflicts with \"kubectl-edit\" using v1:\n- .data.a\n- .data.b",
		`pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "c" must set it)`,
		`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`,
		`configmaps "c" is forbidden: unable to create new content in namespace shop because it is being terminated`,
		`Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post "https://s.n.svc:443/v?timeout=10s": dial ` +
			`tcp: refused`,
		`the server could not find the requested resource`,
		`admission webhook "a.example.com" denied the request: password M4RKER of "db" is 'weak', isn't it? {"p": 1}`,
		`admission webhook "a.example.com" denied the request without explanation`,
		`configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: namespace "shop" has 3 replicas`,
		`conversion webhook for a.example.com/v1, Kind=A failed: "five" is no number`,
		`Invalid value: "object": a size has a unit`,
	} {
		if got, kept := (redactor{}).message(message); got != message || !kept {
			t.Errorf("%s\n got %s", message, got)
		}
	}
	for _, message := range []string{
		`Invalid value: "M4RKER": must be no such text`, `Invalid value: 70000: must be between 1 and 65535, inclusive`,
		`Invalid value: {"a":"M4RKER}"}: selector does not match`, `Invalid value: core.Pod{A:"M4RKER", B:[]string{"M4RKER"}}: no`,
		`Unsupported value: "M4RKER": supported values: "Always", "Never"`, `Duplicate value: "M4RKER"`,
		`Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal number M4RKER into Go struct field Secret.a of type int32`,
		`Secret in version "v1" cannot be handled as a Secret: strict decoding error: field "a": expected string, got "M4RKER"`,
		`Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 4`,
		`couldn't print map[a:M4RKER]: invalid character 'M' looking for beginning of value`,
		`parsing time "M4RKER" as "2006-01-02": cannot parse "M4RKER" as "2006"`,
		`couldn't get version/kind; json parse error: unexpected end of JSON input ({"stringData":{"p":"M4 ...)`,
		`.data.a: expected string, got &v.valueUnstructured{V:123}`, `password "M4RKER" is weak`,
		`Invalid value: "M4RKER, and admission webhook \"a\" denied the request: ": M4RKER`,
	} {
		if got, kept := (redactor{}).message(message); kept || got != "" {
			t.Errorf("%s\n got %s", message, got)
		}
	}
	if got, _ := (redactor{}).message(`Invalid value: "M4RKER": field is immutable`); got != "field is immutable" {
		t.Errorf("an immutable field: %s", got)
	}
	if got, _ := (redactor{secret: true}).message(`admission webhook "a" denied the request: M4RKER`); got !=
		`admission webhook "a" denied the request: (its text is not shown, because it may quote the Secret)` {
		t.Errorf("of a Secret: %s", got)
	}
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
			}}}, `Deployment.apps "web" is invalid: spec.selector: field is immutable; ` +
			`spec.type: FieldValueNotSupported; spec.name: Required value`},
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
