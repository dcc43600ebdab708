package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// written is a form as JSON, with the parts of it as they are.
func written(t *testing.T, form any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(form); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFormatResult(t *testing.T) {
	after := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	none := after(0)
	for _, r := range []effect.Result{
		{},
		{RequeueAfter: after(90 * time.Second),
			Requeue: []effect.Requeue{{Namespace: "n", Name: "a", After: after(time.Minute)}, {Name: "b", After: after(1500 * time.Millisecond)}},
			Message: "3 of \"5\": <ready>\n"},
		{RequeueAfter: after(time.Second), KeepFinalizer: true},
		{RetryAfter: &none, GiveUp: "no such bucket: é"},
	} {
		form := written(t, r)
		validates(t, "result-file", form)
		rules := ResultRules{Failed: r.RetryAfter != nil, Contains: func(string, string) bool { return true }}
		again, err := ParseResult(form, rules)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("got %+v, %v, want %+v: %s", again, err, r, form)
		}
	}
}

func TestFormatAdmission(t *testing.T) {
	for _, a := range []effect.AdmissionAnswer{
		{}, {Message: "no <b>"}, {Allowed: true, Warnings: []string{"a\nb", ""}, Patch: []byte(`[{"op":"add","path":"/a","value":"<"}]`)},
	} {
		form := FormatAdmission(a)
		text := written(t, struct {
			*Admission
			Patch []byte `json:"patch,omitempty"` // base64
		}{form, form.Patch})
		again, err := ParseAdmission(text)
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("got %+v, %v, want %+v: %s", again, err, a, text)
		}
	}
	if got := string(FormatAdmission(effect.AdmissionAnswer{Patch: []byte("x")}).Patch); got != `"x"` {
		t.Errorf("a patch that is no JSON becomes %s", got)
	}
}

func TestFormatHTTP(t *testing.T) {
	for _, text := range []string{
		``, `{"status": 404}`, `{"body": "hi <b>é\n", "headers": {"x": "y"}}`, `{"bodyBase64": "/wA="}`,
		`{"status": 201, "json": {"a": 1.0}, "headers": {"Link": ["a", "b"]}}`,
		`{"bodyBase64": "` + base64.StdEncoding.EncodeToString([]byte("text")) + `"}`, `{"body": ""}`,
	} {
		a, err := ParseHTTP([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		form := written(t, FormatHTTP(a))
		again, err := ParseHTTP(form)
		if len(a.Body) == 0 {
			a.Body = nil
		}
		if a.Headers == nil {
			a.Headers = map[string][]string{}
		}
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("got %+v, %v, want %+v: %s", again, err, a, form)
		}
	}
}
