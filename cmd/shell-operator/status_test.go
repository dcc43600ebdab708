package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestStatusByURL reads the status of an operator on another machine, as helm test does.
func TestStatusByURL(t *testing.T) {
	const blocked = `{"version":"v1","healthy":false,"troubles":[{"kind":"registration","hooks":["a.sh"],"subject":"a.sh","problem":"no ` +
		`permission","hint":"grant it"}]}`
	status, body := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status.json" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	for _, c := range []struct {
		status          int
		body, url, want string
		code            int
	}{
		{200, `{"version":"v1","healthy":true}`, server.URL, "shell-operator v1: healthy\n", 0},
		{200, `{"version":"v1","healthy":true}`, server.URL + "/", "shell-operator v1: healthy\n", 0},
		{200, `{"version":"v1","healthy":true}`, strings.TrimPrefix(server.URL, "http://"), "shell-operator v1: healthy\n", 0},
		{200, blocked, server.URL, "problems:\n- a.sh: no permission: grant it\n", 1},
		{200, blocked, server.URL, "Error: the operator is not healthy\n", 1},
		{200, `{"version":"v1","notReady":"not ready: hooks wait"}`, server.URL, "- not ready: hooks wait\n", 1},
		{200, `{"version":"v1","healthy":true,"troubles":[{"kind":"paused","subject":"a.sh","problem":"is paused","notice":true}]}`, server.URL,
			"notices:\n- a.sh is paused\n", 0},
		{404, "", server.URL, "Error: there is no " + server.URL + "/status.json: is it the port of --listen-port", 2},
		{503, "", server.URL, "answers with status 503", 2},
		{200, "<html>", server.URL, "the answer is no status of a shell-operator", 2},
		{200, "", "http://127.0.0.1:1", "Error: the operator does not answer: ", 2},
		{200, "", "127.0.0.1:1", "Error: the operator does not answer: ", 2},
		{200, "", "%", `Error: --url: "http://%" is no address of an operator: write for instance http://127.0.0.1:9115`, 1},
		{200, "", "ftp://x", "is no address of an operator", 1},
	} {
		status, body = c.status, c.body
		var out strings.Builder
		code := run(newSettings(nil), []string{"status", "--url", c.url}, &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s, %s: exit status %d, want %d:\n%s\nwant %s", c.url, c.body, code, c.code, &out, c.want)
		}
	}
}
