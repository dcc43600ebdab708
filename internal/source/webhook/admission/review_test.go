package admission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// Each file of testdata/review is one request and what comes of it. Its sections are
//
//	hooks      one line for each binding: kind, hook, name of the binding, and failure policy if it has one.
//	           "default Ignore" sets the operator's policy
//	hook       what the hook does; see acts
//	request    an HTTP request
//	response   what comes back; objects in JSON are indented
//	log        what is logged
func TestReviews(t *testing.T) {
	golden.Archives(t, "testdata/review/*.txt", func(t *testing.T, script *txtar.Archive) *txtar.Archive {
		t.Parallel()
		return play(t, script)
	})
}

// play returns the script with what really happens.
func play(t *testing.T, script *txtar.Archive) *txtar.Archive {
	var log logText
	o := Options{Log: log.logger(t), Runner: acts("exits 1")}
	out := &txtar.Archive{Comment: script.Comment}
	var response string
	for _, section := range script.Files {
		text := string(section.Data)
		switch section.Name {
		case "hooks":
			o.Hooks, o.DefaultFailurePolicy = parseHooks(t, text)
		case "hook":
			o.Runner = acts(text)
		case "request":
			response = ask(t, o, text)
		case "response", "log":
			continue
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
		out.Files = append(out.Files, section)
	}
	out.Files = append(out.Files, txtar.File{Name: "response", Data: []byte(response)}, txtar.File{Name: "log", Data: []byte(log.String())})
	return out
}

func parseHooks(t *testing.T, text string) (hooks []*hook.Hook, policy string) {
	byName := map[string]*hook.Hook{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if words[0] == "default" {
			policy = words[1]
			continue
		}
		h := byName[words[1]]
		if h == nil {
			h = &hook.Hook{Name: words[1]}
			byName[words[1]] = h
			hooks = append(hooks, h)
		}
		a := hook.Admission{Binding: hook.Binding{Name: words[2]}, TimeoutSeconds: 10}
		if len(words) > 3 {
			a.FailurePolicy = words[3]
		}
		switch words[0] {
		case "validating":
			h.Validating = append(h.Validating, a)
		case "mutating":
			h.Mutating = append(h.Mutating, a)
		default:
			t.Fatalf("unknown kind %q", words[0])
		}
	}
	return hooks, policy
}

// ask sends a request in the form "METHOD path", headers, an empty line, body.
func ask(t *testing.T, o Options, text string) string {
	handler := New(o)
	defer handler.Wait()
	head, body, _ := strings.Cut(text, "\n\n")
	head = strings.TrimSpace(strings.Replace(head, "\n", " HTTP/1.1\nHost: operator\n", 1))
	if !strings.Contains(head, "HTTP/1.1") {
		head += " HTTP/1.1\nHost: operator"
	}
	body = strings.TrimSuffix(body, "\n")
	head += fmt.Sprintf("\nContent-Length: %d", len(body))
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return show(t, w.Result(), w.Body.Bytes())
}

func show(t *testing.T, response *http.Response, body []byte) string {
	var out bytes.Buffer
	fmt.Fprintln(&out, response.StatusCode, http.StatusText(response.StatusCode))
	for _, name := range []string{"Allow", "Content-Type", "Retry-After", "Connection"} {
		if v := response.Header.Get(name); v != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintln(&out)
	if response.Header.Get("Content-Type") == "application/json" {
		if err := json.Indent(&out, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		body = []byte("\n")
	}
	out.Write(body)
	if len(body) > 0 && body[len(body)-1] != '\n' {
		out.WriteByte('\n')
	}
	return out.String()
}

func TestLargeReviews(t *testing.T) {
	hooks, _ := parseHooks(t, "validating deny.sh a.b.c")
	for size, want := range map[int]int{largestReview: http.StatusOK, largestReview + 1: http.StatusRequestEntityTooLarge} {
		var log logText
		handler := New(Options{Hooks: hooks, Runner: acts(`{"allowed": true}`), Log: log.logger(t)})
		frame := `{"request":{"uid":"1","object":""}}`
		body := strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
		r := httptest.NewRequest("POST", "/hooks/validating/deny.sh/a.b.c", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d bytes: got %d, want %d: %s", size, w.Code, want, w.Body)
		}
		handler.Wait()
	}
}
