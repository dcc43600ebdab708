package kubeevent

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// lossy is an API server that knows ConfigMaps. It carries out all changes, and loses the first answer: an Event exists after that.
type lossy struct{ requests []string }

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	text := `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get"]}]}`
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		l.requests = append(l.requests, fmt.Sprintf("%s %s %s", r.Method, path.Base(r.URL.Path), body))
		if err != nil || len(l.requests) == 1 {
			return nil, syscall.ECONNRESET
		}
	}
	if r.Method == http.MethodPost {
		answer.StatusCode = http.StatusConflict
		text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`
	}
	answer.Body = io.NopCloser(strings.NewReader(text))
	return answer, nil
}

// An Event whose creation was not confirmed is not created twice, and gets what has happened since.
func TestLostAnswer(t *testing.T) {
	server := &lossy{}
	client, err := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Client: client, Log: slog.New(slog.DiscardHandler), Dropped: func(string) { t.Error("dropped") }})
	event := Event{Regarding: Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "none"}, Type: "Normal", Reason: "Seen"}
	r.Record("a.sh", event)
	if next := r.Flush(t.Context()); next == 0 {
		t.Error("the answer was not lost")
	}
	r.Record("a.sh", event)
	for _, l := range r.lines {
		l.notBefore = l.first
	}
	if next := r.Flush(t.Context()); next != 0 || len(server.requests) != 3 {
		t.Fatalf("%s left, the requests are %q", next, server.requests)
	}
	created := strings.Fields(server.requests[1])
	_, name, _ := strings.Cut(created[2], `"name":"`)
	name, _, _ = strings.Cut(name, `"`)
	if update := server.requests[2]; created[0] != "POST" || !strings.HasPrefix(update, "PATCH "+name+` {"series":{"count":2,`) {
		t.Errorf("after %q came %q", server.requests[1], update)
	}
}
