package wire

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestParseHTTP(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{``, `204 map[] ""`},
		{`{}`, `200 map[] ""`},
		{`{"status": 404}`, `404 map[] ""`},
		{`{"body": "hi"}`, `200 map[Content-Type:[text/plain; charset=utf-8]] "hi"`},
		{`{"body": ""}`, `200 map[] ""`},
		{`{"bodyBase64": "/wA="}`, `200 map[Content-Type:[application/octet-stream]] "\xff\x00"`},
		{`{"status": 201, "json": {"a": 1.0}}`, `201 map[Content-Type:[application/json]] "{\"a\": 1.0}\n"`},
		{`{"json": null}`, `200 map[Content-Type:[application/json]] "null\n"`},
		{`{"body": "<p>", "headers": {"content-type": "text/html"}}`, `200 map[Content-Type:[text/html]] "<p>"`},
		{`{"headers": {"Link": ["a", "b"], "X-None": []}}`, `200 map[Link:[a b]] ""`},
		{`{"status": 204, "body": ""}`, `204 map[] ""`},
		{" \n", `it is not a JSON object`},
		{`null`, `it is not a JSON object`},
		{`[1]`, `it is not a JSON object`},
		{`{"status": 200} {}`, `it is not one JSON object, at byte 16`},
		{`{"status": 200`, `it is not one JSON object, at byte 14`},
		{`{"status": "200"}`, `"status" must be a whole number`},
		{`{"body": {"secret": 1}}`, `"body" must be a string; for JSON there is the key json`},
		{`{"bodyBase64": "secret!"}`, `"bodyBase64" must be a string in base64`},
		{`{"code": 200}`, `the key "code" is not known`},
		{`{"status": 100}`, `the status is 100, but must be between 200 and 599`},
		{`{"status": 600}`, `the status is 600, but must be between 200 and 599`},
		{`{"status": 204, "body": "x"}`, `an answer with the status 204 cannot have a body`},
		{`{"status": 304, "json": 1}`, `an answer with the status 304 cannot have a body`},
		{`{"body": "x", "json": 1}`, `it has more than one body`},
		{`{"headers": {"A B": "x"}}`, `"A B" is not the name of a header`},
		{`{"headers": {"": "x"}}`, `"" is not the name of a header`},
		{`{"headers": {"content-length": "1"}}`, `the header Content-Length is set by the operator: leave it out`},
		{`{"headers": {"Transfer-Encoding": "chunked"}}`, `the header Transfer-Encoding is set by the operator: leave it out`},
		{`{"headers": {"Trailer:X": "1"}}`, `"Trailer:X" is not the name of a header`},
		{`{"headers": {"X": "a\r\nSet-Cookie: b"}}`, `a value of the header X has a line break or another control character`},
		{`{"headers": {"X": ["a", "\u0000"]}}`, `a value of the header X has a line break or another control character`},
		{`{"headers": {"X": 1}}`, `the value of the header X must be a string or a list of strings`},
		{`{"headers": {"X": null}}`, `the value of the header X must be a string or a list of strings`},
		{`{"headers": {"x": "1", "X": "2"}}`, `the header X is given twice: write a list`},
		{`{"body": "` + strings.Repeat("x", largestHTTPAnswer) + `"}`, `it has more than 33554432 bytes`},
	} {
		answer, err := ParseHTTP([]byte(tt.in))
		got := fmt.Sprintf("%d %v %q", answer.Status, answer.Headers, answer.Body)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "the file that $HTTP_RESPONSE_PATH names is not valid: ")
			if strings.Contains(got, "secret") {
				t.Errorf("%s: a value is in the error: %s", tt.in, got)
			}
			got = strings.TrimSuffix(got, ": "+httpHint)
		}
		if got != tt.want {
			t.Errorf("%.80s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
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
