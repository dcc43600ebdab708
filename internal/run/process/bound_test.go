package process

import (
	"os"
	"strings"
	"testing"
)

// Lines beyond Output are read and dropped, so that the hook does not block.
func TestTooMuchOutput(t *testing.T) {
	for script, want := range map[string]string{
		"for n in {1..1000}; do echo $n; done; echo last":        "1 2 3 4 5 6 7 8 9 10 11 12",
		"echo first; head -c 3000000 /dev/zero; echo; echo last": "first",
		"echo 123456789; echo 123456789 >&2; echo 1234567":       "123456789 1234567",
	} {
		var stdout []string
		dropped := 0
		_, err := New(Options{}).Execute(t.Context(), Invocation{
			Hook: "h", Path: "/bin/bash", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Output: 28,
			Stdout: func(line []byte) { stdout = append(stdout, string(line)) }, Stderr: func([]byte) {}, Dropped: func() { dropped++ },
		})
		if got := strings.Join(stdout, " "); got != want || err != nil || (dropped != 1) != (want == "123456789 1234567") {
			t.Errorf("%s: %q %d %v", script, got, dropped, err)
		}
	}
}
