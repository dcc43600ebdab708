package wire

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestParseHTTP reads testdata/http.txt: answers and, below dashes, what comes of them.
func TestParseHTTP(t *testing.T) {
	parsed := func(text string) string {
		answer, err := ParseHTTP([]byte(text))
		if err == nil {
			return fmt.Sprintf("%d %v %q", answer.Status, answer.Headers, answer.Body)
		}
		got := strings.TrimPrefix(err.Error(), "the file that $HTTP_RESPONSE_PATH names is not valid: ")
		if strings.Contains(got, "secret") {
			t.Errorf("%s: a value is in the error: %s", text, got)
		}
		return strings.TrimSuffix(got, ": "+httpHint)
	}
	answers(t, "testdata/http.txt", parsed)
	if got := parsed(`{"body": "` + strings.Repeat("x", largestHTTPAnswer) + `"}`); got != "it has more than 33554432 bytes" {
		t.Error(got)
	}
}

// answers runs a script of files that hooks write, and of what comes of them.
func answers(t *testing.T, path string, parsed func(string) string) {
	golden.Scripts(t, path, func(_ *testing.T, script string) string {
		var played []string
		for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
			file, _, _ := strings.Cut(block+"\n", "----\n")
			played = append(played, file+"----\n"+parsed(unquoted(strings.TrimSpace(file)))+"\n")
		}
		return strings.Join(played, "\n")
	})
}

// Whatever a hook writes, what passes can be sent: net/http drops or changes nothing of it.
func FuzzParseHTTP(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `{"status":201,"headers":{"A":"b","C":["d","é"]},"json":[1]}`, `{"status":304,"body":""}`, `{"bodyBase64":"/wA="}`,
		`{"headers":{"X":"a\r\nb"}}`, `{"headers":{"Content-Length":"1"}}`, `{"status":1e2}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		answer, err := ParseHTTP(text)
		if err != nil {
			return
		}
		server := httptest.NewRecorder()
		maps.Copy(server.Header(), answer.Headers)
		server.WriteHeader(answer.Status)
		_, _ = server.Write(answer.Body)
		var sent strings.Builder
		if err := server.Result().Write(&sent); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(sent.String(), "\r\n\r\n")
		for line := range strings.SplitSeq(head, "\r\n") {
			if strings.ContainsAny(line, "\r\n\x00") {
				t.Fatalf("a header breaks the line: %q", line)
			}
		}
		for name, values := range answer.Headers {
			if name != http.CanonicalHeaderKey(name) || len(values) == 0 || slices.ContainsFunc(values, unfitForHeader) {
				t.Fatalf("header %q: %q", name, values)
			}
		}
	})
}
