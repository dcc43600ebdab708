package recording

import (
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// The token of a registered webhook path is in no recording of a hook that watches registrations, nor is what the hook printed.
func TestTokensAreRedacted(t *testing.T) {
	token := strings.Repeat("0a", 32)
	contexts := `[{"binding":"crds","type":"Event","object":{"clientConfig":{"url":"https://h/things.example.com/` + token + `"}}}]`
	r := &Recorder{redactor: newRedactor()}
	var out strings.Builder
	err := r.write(&out, []byte(contexts), Run{Hook: &hook.Hook{Name: "a"}, Error: "at /things.example.com/" + token,
		Output: "it is " + token})
	if err != nil || strings.Contains(out.String(), token) || !strings.Contains(out.String(), "/redacted-token") {
		t.Errorf("%v: %s", err, out.String())
	}
}
