package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

func ask(api http.Handler, method, target string, form url.Values) *httptest.ResponseRecorder {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req := httptest.NewRequest(method, target, body)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res := httptest.NewRecorder()
	api.ServeHTTP(res, req)
	return res
}

// fromSocket sends requests as a client of the socket.
func fromSocket(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(withCaller(r.Context(), client{uid: "1234"})))
	})
}

// A client of the TCP port does not change the log level; one of the socket is in the record of the change, also if the new level would
// hide it.
func TestConfigSet(t *testing.T) {
	var log bytes.Buffer
	level := &slog.LevelVar{}
	o := operate(theOperator())
	o.logLevel = NewLogLevel(level, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})))
	defer o.logLevel.Close()
	api, form := o.api(), url.Values{"name": {"log.level"}, "value": {"fatal"}, "duration": {"8760h"}}
	if res := ask(api, "POST", "/config/set", form); res.Code != 403 ||
		!strings.Contains(res.Body.String(), "are accepted on the debug socket only") || level.Level() != slog.LevelInfo || log.Len() > 0 {
		t.Errorf("over TCP: %d %s; level %s, log %s", res.Code, res.Body, level.Level(), log.String())
	}
	if res := ask(fromSocket(api), "POST", "/config/set", form); res.Code != 200 || level.Level() == slog.LevelInfo {
		t.Errorf("by the socket: %d %s", res.Code, res.Body)
	}
	if !strings.Contains(log.String(),
		`msg="Change log level" value=fatal command=config/set arguments="duration=8760h&name=log.level&value=fatal" uid=1234`) {
		t.Errorf("the log is %s", log.String())
	}
}

// TestRoutes runs testdata/routes.txt with an operator. A command is a method, a path and a form; below the dashes are the status, the
// content type and the answer, without empty lines.
func TestRoutes(t *testing.T) {
	requests(t, "testdata/routes.txt", func() *fake {
		op := theOperator()
		op.skipped = map[string]string{"draft.sh": "not executable; chmod +x"}
		return op
	})
}

// TestParkedAndPauses: what is paused and parked is in all views.
func TestParkedAndPauses(t *testing.T) {
	requests(t, "testdata/paused.txt", busyOperator)
	page := ask(operate(busyOperator()).page(), "GET", "/", nil).Body.String()
	for _, want := range []string{
		"is paused with 4 tasks", "is paused with 0 tasks", `<td class="number">4</td><td class="number">1</td><td class="number">1</td>`,
		`<td class="number">3</td><td>in 2s</td>`, `<span class="state paused">paused</span>`,
		`<span class="state running">running, paused</span>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing in %s", want, page)
		}
	}
}

// requests runs a script of requests to an operator with two runs.
func requests(t *testing.T, path string, operator func() *fake) {
	t.Helper()
	golden.Scripts(t, path, func(t *testing.T, script string) (played string) {
		synctest.Test(t, func(t *testing.T) {
			o := operate(operator())
			defer o.logLevel.Close()
			record(o.history, "17", "big.py", history.Failed, "boom")
			record(o.history, "18", "tidy.sh", history.Succeeded, "fine")
			api := fromSocket(o.api())
			var outcome strings.Builder
			played = golden.Blocks(script, func(words []string) {
				form, err := url.ParseQuery(strings.Join(words[2:], ""))
				if err != nil {
					t.Fatal(err)
				}
				res := ask(api, words[0], words[1], form)
				body := res.Body.String()
				if contentType := res.Header().Get("Content-Type"); contentType == "application/json" && !json.Valid([]byte(body)) {
					t.Errorf("%q: no JSON", words)
				}
				fmt.Fprintf(&outcome, "%d %s\n", res.Code, res.Header().Get("Content-Type"))
				for line := range strings.FieldsFuncSeq(body, func(r rune) bool { return r == '\n' }) {
					fmt.Fprintln(&outcome, line)
				}
			}, func() string {
				defer outcome.Reset()
				return outcome.String()
			})
		})
		return played
	})
}

func TestWhileHooksAreLoaded(t *testing.T) {
	api := operate(&fake{}).api()
	if res := ask(fromSocket(api), "POST", "/queue/main/retry", nil); res.Code != 503 {
		t.Errorf("an action: %d %s", res.Code, res.Body)
	}
	for path, status := range map[string]int{"/hook/list": 503, "/hook/a/why": 503, "/queue/list": 200, "/run/list": 200, "/status": 200} {
		if res := ask(api, "GET", path, nil); res.Code != status {
			t.Errorf("%s: %d %s", path, res.Code, res.Body)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"/", "/hook/a/b.sh/snapshots.json", "/hook//why", "/run/1-1", "/hook/%2F%/why", "/hook/list.yaml.json", "//",
		"/hook/%zz/why"} {
		f.Add(path)
	}
	o := operate(theOperator())
	api := o.api()
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || strings.Contains(u.Path, "tail") {
			t.Skip()
		}
		res := httptest.NewRecorder()
		api.ServeHTTP(res, &http.Request{Method: "GET", URL: u, Header: http.Header{}, Body: http.NoBody})
		if res.Code == 500 {
			t.Errorf("%q: %s", path, res.Body)
		}
	})
}

const allHooks = "shell-operator hook list shows all hooks, status what removed ones have left"

// TestErrorsTravelWhole sends errors to the client: nothing is cut from texts with colons, and upstream's routes have text for other
// clients.
func TestErrorsTravelWhole(t *testing.T) {
	api := operate(theOperator()).api()
	client := NewLocalClient(api)
	for path, want := range map[string]*Problem{
		"/hook/nope/why": {Text: `there is no hook "nope"`, Next: allHooks, Code: unknownHook},
		"/hook/Pod/a/x/why": {Text: `there is no hook "Pod/a/x"`, Code: unknownHook,
			Next: allHooks + "; shell-operator why --object Pod/a/x explains an object"},
		"/hook/nope/snapshots":  {Text: `there is no hook "nope"`, Next: allHooks, Code: unknownHook},
		"/hook/draft.sh: a/why": {Text: `there is no hook "draft.sh: a"`, Next: allHooks, Code: unknownHook},
		"/run/1:2": {Text: `there is no run "1:2", or no longer`, Next: "shell-operator runs lists the known ones",
			Code: "notFound"},
		"/nope": {Text: "there is no /nope here", Next: "shell-operator raw --help lists all paths", Code: noRoute},
	} {
		_, err := client.Get(t.Context(), (&url.URL{Path: path}).EscapedPath())
		got := new(Problem)
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("%s: %+v, want %+v", path, err, want)
		}
	}
	if body := ask(api, "GET", "/hook/nope/snapshots", nil).
		Body.String(); body != "there is no hook \"nope\": shell-operator hook list shows all hooks, status what removed ones have left\n" {
		t.Errorf("upstream's route: %q", body)
	}
	var other *Problem
	if err := refusalOf(502, []byte("bad gateway: try later\n")); !errors.As(err, &other) || other.Text != "bad gateway: try later" ||
		other.Next != "" {
		t.Errorf("the answer of another program: %+v", other)
	}
}
