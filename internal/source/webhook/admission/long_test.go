package admission

import (
	"strings"
	"testing"
)

// Names that a client makes up are cut in the log.
func TestLongTextsOfClients(t *testing.T) {
	handler, log := newHandler(t, Options{Runner: acts(`{"allowed": true}`)}, "validating a.sh a.acme.dev")
	long := strings.Repeat("n", 1<<20)
	body := `{"request": {"uid": "` + long + `", "kind": {"kind": "` + long + `"}, "name": "` + long + `", "namespace": "` + long +
		`", "operation": "` + long + `", "subResource": "` + long + `"}}`
	if status, _ := post(t.Context(), handler, path, body); status != 200 {
		t.Errorf("status %d", status)
	}
	if text := log.String(); len(text) > 4096 || !strings.Contains(text, "Got AdmissionReview request") {
		t.Errorf("%d bytes are logged: %.1000s", len(text), text)
	}
}
