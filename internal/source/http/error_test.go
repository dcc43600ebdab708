package http

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// errorIn returns the text for the client, of an answer that is as documented.
func errorIn(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var out map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || len(out) != 2 || out["error"] == "" || out["id"] == "" ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("not an error as documented: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the response exposes internals: %s", w.Body)
	}
	return out["error"]
}
