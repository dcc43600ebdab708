package debug

import (
	"net/http"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

func TestPage(t *testing.T) {
	o := operate(theOperator())
	record(o.history, "17", "big.py", history.Failed, "output-of-a-hook")
	record(o.history, "18", "<b>ärger 100%.sh", history.Allowed, "output-of-a-hook")
	page := o.page()
	res := ask(page, "GET", "/", nil)
	body := res.Body.String()
	if res.Code != http.StatusOK || res.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("status %d, %s", res.Code, res.Header().Get("Content-Type"))
	}
	for _, want := range []string{
		"<title>Shell operator</title>", "shell-operator v1.2.3", `href="/metrics"`, `href="/discovery"`,
		"big.py · kubernetes · cms", "in 3s", "0 3 * * *", "&lt;b&gt;ärger 100%.sh", "<td>17-1</td>",
		"no permission to watch configmaps (v1)", "synchronizing", "exit status 1 (allowed)", `<td class="number">2</td><td>main</td><td><span ` +
			`class="state watching">`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing", want)
		}
	}
	// Nothing of objects, nothing that hooks have printed, nothing that a browser would run.
	for _, never := range []string{"secret-value", "boom", "output-of-a-hook", "a/x", "<b>", "onclick", "onload=", "style=",
		"javascript:", "pprof"} {
		if strings.Contains(body, never) {
			t.Errorf("%q is on the page", never)
		}
	}
	// Who may read the debug API gets the causes.
	for handler, has := range map[http.Handler]bool{page: false, o.api(): true} {
		status := ask(handler, "GET", "/status.json", nil).Body.String()
		if strings.Contains(status, "output-of-a-hook") != has || strings.Contains(status, "boom") != has {
			t.Errorf("the status has what hooks have printed: %t, want %t: %s", !has, has, status)
		}
	}
}

func TestPageHeaders(t *testing.T) {
	page := operate(theOperator()).page()
	for path, contentType := range map[string]string{"/": "text/html", "/status/status.js": "text/javascript",
		"/status/status.css": "text/css"} {
		res := ask(page, "GET", path, nil)
		h := res.Header()
		if res.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), contentType) || h.Get("Content-Security-Policy") != pagePolicy ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, res.Code, h)
		}
	}
	if strings.Contains(pagePolicy, "unsafe") || !strings.HasPrefix(pagePolicy, "default-src 'none'") {
		t.Errorf("the policy allows too much: %s", pagePolicy)
	}
	for _, path := range []string{"/nope", "/status/", "/status/page.html"} {
		if res := ask(page, "GET", path, nil); res.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.Code)
		}
	}
}
