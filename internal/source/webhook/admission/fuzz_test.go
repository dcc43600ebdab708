package admission

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// For every request, and every answer of a hook, the response is valid for the API server.
func FuzzReview(f *testing.F) {
	const whole = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","object":{}}}`
	for _, answer := range []string{`{"allowed":true}`, `{"allowed":true,"patch":"W10="}`, `{"allowed":false,"message":"\n"}`, "exits 1",
		"writes nothing", ""} {
		f.Add("POST", "?timeout=10s", "application/json", whole, answer)
	}
	f.Add("GET", "", "", "", "")
	f.Add("POST", "?timeout=%", "application/json;x", minimal, `{"warnings":["\u0000"]}`)
	f.Add("POST", "", "application/json", `{"request":null}`, "")
	f.Fuzz(func(t *testing.T, method, query, contentType, body, answer string) {
		hooks, _ := parseHooks(t, "mutating a.sh a.acme.dev")
		if strings.TrimSpace(answer) == "hangs" {
			t.Skip()
		}
		handler := New(Options{Hooks: hooks, Runner: acts(answer), Log: (&logText{}).logger(t)})
		r := httptest.NewRequest("POST", "/hooks/mutating/a.sh/a.acme.dev", strings.NewReader(body))
		r.Method, r.URL.RawQuery = method, strings.TrimPrefix(query, "?")
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		handler.Wait()
		switch w.Code {
		case http.StatusOK:
			var out struct {
				Response *struct {
					UID       *string
					Allowed   *bool
					PatchType string
					Patch     []byte
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil || out.Response.UID == nil ||
				out.Response.Allowed == nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if (len(out.Response.Patch) > 0) != (out.Response.PatchType == "JSONPatch") || len(out.Response.Patch) > 0 && !*out.Response.Allowed {
				t.Fatalf("a patch without its type, or the other way round: %s", w.Body)
			}
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge:
		default:
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	})
}
