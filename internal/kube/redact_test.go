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
	body := func() []byte {
		return []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db"}, "data": {"a": "M4RKER-sent", ` +
			`"b": 1234567, "c": "no"}}`)
	}
	for message, want := range map[string]string{
		// No values: nothing changes.
		`secrets "db" already exists`: ``,
		`namespaces "db" not found`:   ``,
		`Operation cannot be fulfilled on secrets "db": the object has been modified; please apply your changes to the latest version ` +
			`and try again`: ``,
		`secrets is forbidden: User "alice" cannot create resource "secrets" in API group "" in the ` +
			`namespace "default"`: ``,
		`secrets "db" is forbidden: User "alice" cannot patch resource "secrets/status" in API group "" at the cluster scope: RBAC: roles ` +
			`"a" not found`: ``,
		`failed to create typed patch object (/db; /v1, Kind=Secret): .spec: field not ` +
			`declared in schema`: ``,
		`Secret in version "v1" cannot be handled as a Secret: illegal base64 data at ` +
			`input byte 4`: ``,
		`Secret in version "v1" cannot be handled as a Secret: strict decoding error: unknown field "spec.a", ` +
			`duplicate field "data.a"`: ``,
		`Apply failed with 1 conflict: conflict with "kubectl-edit" ` +
			`using v1: .data.a`: ``,
		`pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "c" ` +
			`must set it)`: ``,
		`Internal error occurred: failed calling webhook "a.b.c": failed to call webhook: Post "https://s.n.svc:443/v?timeout=10s": dial ` +
			`tcp: refused`: ``,
		`the server rejected our request due to an error ` +
			`in our request`: ``,
		`Deployment in version "v1" cannot be handled as a Deployment: quantities must match the regular expression ` +
			`'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?)$'`: ``,

		`Invalid value: "M4RKER": field is immutable`:         `Invalid value: …: field is immutable`,
		`Invalid value: "M4 \"RKER\": x": field is immutable`: `Invalid value: …: field is immutable`,
		`Invalid value: 70000: must be between 1 and 65535, inclusive`: `Invalid value: …: must be between 1 and ` +
			`65535, inclusive`,
		`Invalid value: {"a":"M4RKER}"}: selector does not match`:       `Invalid value: …: selector does not match`,
		`Invalid value: ["M4RKER"]: too short`:                          `Invalid value: …: too short`,
		`Invalid value: core.Pod{A:"M4RKER", B:[]string{"M4RKER"}}: no`: `Invalid value: …: no`,
		`Invalid value: M4RKER`:                                         `Invalid value: …`,
		`Invalid value: "M4RKER": error converting: label not supported: M4RKER`: `Invalid value: …: error converting: label not ` +
			`supported: …`,
		`Invalid value: "M4RKER * *": expected exactly 5 fields, found 2: [M4RKER * *]`: `Invalid value: …: expected exactly 5 fields, ` +
			`found 2: […]`,
		`Unsupported value: "M4RKER": supported values: "Always", "Never"`: `Unsupported value: …: supported values: "Always", "Never"`,
		`Duplicate value: "M4RKER"`:                                        `Duplicate value: …`,
		`Invalid value: "{\"data\":{\"p\":\"M4RKER\"}}": json: cannot unmarshal number 12 into Go struct field Secret.data ` +
			`of type uint8`: `Invalid value: …: json: cannot unmarshal number into Go struct field Secret.data of type uint8`,
		`json: cannot unmarshal number into Go struct field Secret.data of type []uint8`:           ``,
		`json: cannot unmarshal array into Go struct field Secret.data of type map[string][]uint8`: ``,
		`couldn't print map[a:M4RKER]: invalid character 'M' looking for beginning of value`: `couldn't print ` +
			`map…: invalid character looking for beginning of value`,
		`parsing time "M4RKER" as "2006-01-02": cannot parse ` +
			`"M4RKER" as "2006"`: `parsing time … as …: cannot parse … as …`,
		`couldn't get version/kind; json parse error: unexpected end of JSON input ({"stringData":{"p":"M4 ...)`: `couldn't get version/kind; ` +
			`json parse error: unexpected end of JSON input (…`,
		`.data: expected map, got &{[M4RKER]}`:                      `.data: expected map, got &…`,
		`.data.a: expected string, got &v.valueUnstructured{V:123}`: `.data.a: expected string, got &v.valueUnstructured…`,
		`password "M4RKER" is weak`:                                 `password … is weak`,
		`something "M4RKER without an end`:                          `something …`,
		// Of the request, without quotes.
		`the value M4RKER-sent is no good, nor is 1234567, no`: `the value … is no good, nor is …, no`,
		`admission webhook "a.example.com" denied the request: password M4RKER-sent of "db" is 'weak', isn't it? {"p": 1}`: `admission webhook ` +
			`"a.example.com" denied the request: password … of … is …, isn't it? …`,
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: namespace "M4RKER" has 3 replicas`: `ValidatingAdmissionPolicy 'p' ` +
			`with binding 'b' denied request: namespace … has 3 replicas`,
	} {
		if want == "" {
			want = message
		}
		if got := (&redactor{body: body}).message(message); got != want {
			t.Errorf("%s\n got %s\nwant %s", message, got, want)
		}
	}
	if got := (&redactor{secret: true}).message(`admission webhook "a" denied the request: M4RKER`); strings.Contains(got, "M4RKER") {
		t.Errorf("of a Secret: %s", got)
	}
}

func TestRedactLongMessage(t *testing.T) {
	got := (&redactor{}).message(strings.Repeat("é", 1000))
	if len(got) > maxMessage || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %s", len(got), got)
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
	if want := `Secret "db" is invalid: data.a: Invalid value: …: no`; !apierrors.IsInvalid(err) || err.Error() != want {
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
			header := http.Header{"Warning": {`299 - "unknown field \"spec.a\""`, `299 - "password \"M4RKER\" is weak"`}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader("{}")), Request: req}
		})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Send(t.Context(), client.Get().AbsPath("/version")); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(logged.texts, "; "), `unknown field "spec.a"; password … is weak`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An error in the stream of a watch is a status, too.
func TestRedactEvents(t *testing.T) {
	status := metav1.Status{Message: `conversion webhook for a.example.com/v1, Kind=A failed: "M4RKER" is no number`}
	if Redact(&status); status.Message != `conversion webhook for a.example.com/v1, Kind=A failed: … is no number` {
		t.Errorf("got %s", status.Message)
	}
}
