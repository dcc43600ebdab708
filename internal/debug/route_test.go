package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/debug/history"
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

// fromSocket makes requests those of a client of the socket.
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

func TestRoutes(t *testing.T) {
	op := theOperator()
	op.skipped = map[string]string{"draft.sh": "not executable; chmod +x"}
	o := operate(op)
	record(o.history, "17", "big.py", history.Failed, "boom")
	record(o.history, "18", "tidy.sh", history.Succeeded, "fine")
	api := o.api()
	set := func(pairs ...string) url.Values {
		form := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	const text, asJSON, asYAML = "text/plain; charset=utf-8", "application/json", "application/yaml"
	for _, test := range []struct {
		method, target string
		form           url.Values
		status         int
		contentType    string
		body           string // is contained
	}{
		{"GET", "/", nil, 200, text, "debug endpoint is alive"},
		{"HEAD", "/", nil, 200, text, ""},
		{"GET", "/queue/main", nil, 200, text, "Queue 'main': length 2"},
		{"GET", "/queue/main.text", nil, 200, text, "Queue 'main': length 2"},
		{"GET", "/queue/main.json", nil, 200, asJSON, `{"name":"main"`},
		{"GET", "/queue/main.yaml", nil, 200, asYAML, "name: main\n"},
		{"GET", "/queue/main.xml", nil, 404, text, "there is no /queue/main.xml here"},
		{"GET", "/queue/list.json", nil, 200, asJSON, `"totalTasks":3`},
		{"GET", "/queue/list.text?showEmpty=true", nil, 200, text, "Empty queues (1):"},
		{"POST", "/queue/list", nil, 405, text, "/queue/list takes GET only"},
		{"GET", "/hook/list", nil, 200, text, `["shop/watch.sh","big.py","tidy.sh","<b>ärger 100%.sh"]`},
		{"GET", "/hook/list.yaml", nil, 200, asYAML, "- shop/watch.sh\n- big.py\n"},
		{"GET", "/hook/shop/watch.sh/snapshots", nil, 200, text,
			`{"pods":{"snapshot":[{"object":{"kind":"Pod","data":"secret-value"},"filterResult":{"app":"x"}},{"object":{"kind":"Pod",` +
				`"n":12345678901234567890},"filterResult":null}],` +
				`"operations":{"sinceStart":{"count":2,"added":5,"deleted":3,"modified":9,"cleaned":0},"sinceLastExecution":{"count":0,"added":1,` +
				`"deleted":0,"modified":0,"cleaned":0}}},"cms":{"snapshot":[]`},
		{"GET", "/hook/shop/watch.sh/snapshots.yaml", nil, 200, asYAML, "pods:\n  operations:\n"},
		{"GET", "/hook/tidy.sh/snapshots.json", nil, 200, asJSON, "null"},
		{"GET", "/hook/nope/snapshots", nil, 400, text, `there is no hook "nope"`},
		{"GET", "/hook/tidy.sh/config", nil, 200, text, "# at night\nschedule:\n- crontab: 0 3 * * *\n"},
		{"GET", "/hook/tidy.sh/config.yaml", nil, 200, asYAML, "schedule:\n- crontab: 0 3 * * *\n"},
		{"GET", "/hook/tidy.sh/config.json", nil, 200, asJSON, `{"schedule":[{"crontab":"0 3 * * *"}]}`},
		{"GET", "/hook/big.py/runs", nil, 200, text, `[{"id":"17-1"`},
		{"GET", "/hook/big.py/runs.json", nil, 200, asJSON, `"error":"big.py FAILED: boom"`},
		{"GET", "/hook/tidy.sh/runs?failed=true", nil, 200, text, "[]"},
		{"GET", "/run/list", nil, 200, text, `"id":"18-1"`},
		{"GET", "/run/list.json?failed=true", nil, 200, asJSON, `"hook":"big.py"`},
		{"GET", "/run/17-1", nil, 200, text, "operations:\n  MergePatch Pod/status a/x\n"},
		{"GET", "/run/17.yaml", nil, 200, asYAML, "output: |\n  boom\n"},
		{"GET", "/run/99", nil, 404, asJSON,
			`{"error":"there is no run \"99\", or no longer","hint":"shell-operator runs lists the known ones","code":"notFound"}`},
		{"GET", "/hook/big.py/why", nil, 200, text, "big.py: failing\n"},
		{"GET", "/hook/big.py/why.json", nil, 200, asJSON, `"verdict":"failing"`},
		{"GET", "/config/list", nil, 200, text, "log.level                      info "},
		{"GET", "/config/list.json", nil, 200, asJSON,
			`[{"name":"log.level","description":"Lowest level of records in the log","default":"info","value":"info"}]`},
		{"GET", "/config/set", nil, 405, text, "takes POST only"},
		{"POST", "/config/set", set("name", "log.level", "value", "debug", "duration", "1h"), 200, text, ""},
		{"POST", "/config/set", set("name", "log.level", "value", "info"), 200, text, ""},
		{"POST", "/config/set", set("value", "info"), 400, text, `the form field "name" is missing`},
		{"POST", "/config/set", set("name", "log.level", "value", ""), 400, text, `the form field "value" is missing`},
		{"POST", "/config/set", set("name", "log.level", "value", "loud"), 400, text, "use one of trace, debug, info, warn, error, fatal"},
		{"POST", "/config/set", set("name", "x", "value", "y"), 400, text, `there is no parameter "x"`},
		{"POST", "/config/set", set("name", "log.level", "value", "info", "duration", "soon"), 400, text, `the duration "soon" is not one`},
		{"POST", "/config/set", set("name", "log.level", "value", "info", "duration", "-1s"), 400, text, "is not one"},
		{"GET", "/status.json", nil, 200, asJSON, `"version":"v1.2.3"`},
		{"GET", "/status", nil, 200, text,
			"shell-operator v1.2.3: 2 problems\nproblems:\n- shop/watch.sh, binding \"cms\": no permission to watch configmaps (v1)\n- queue " +
				"\"slow\": big.py · kubernetes · cms has failed 4 times, the next attempt is in 3s\nhooks: 4 ("},
		{"GET", "/hook/shop/w/why", nil, 200, text, "shop/watch.sh: "},
		{"GET", "/hook/wat/why", nil, 200, text, "shop/watch.sh: "},
		{"GET", "/hook/draft.sh/why", nil, 400, asJSON,
			`{"error":"\"draft.sh\" is no hook, the file is skipped: not executable","hint":"chmod +x","code":"invalid"}`},
		{"GET", "/queue/slow/lanes", nil, 200, text, `"lanes":[{"tasks":1,"phase":"sleeping","for":0,"failures":4,"retryIn":3,`},
		{"GET", "/queue/spare/lanes.json", nil, 200, asJSON, `"count":0,"running":0,"delayed":0,"matching":0,"lanes":[]`},
		{"GET", "/queue/nope/lanes", nil, 400, asJSON, `there is no queue \"nope\"`},
		{"GET", "/object/Pod/a/x", nil, 200, text, `shop/watch.sh, binding "pods": sees it`},
		{"GET", "/object/Pod/a/x.json", nil, 200, asJSON, `"bindings":[{"hook":"shop/watch.sh","binding":"pods","sees":true,"state":"watching",`},
		{"GET", "/object/Pod/a/x/y", nil, 400, asJSON, "names no object"},
		{"GET", "/object/Pod", nil, 400, asJSON, "write KIND/NAMESPACE/NAME"},
		{"GET", "/object/Pot/a/x", nil, 404, asJSON, "did you mean Pod?"},
		{"GET", "/run/18.json", nil, 200, asJSON, `"phases":[{"name":"waiting","started":`},
		{"GET", "/nope", nil, 404, text, "there is no /nope here"},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			res := ask(fromSocket(api), test.method, test.target, test.form)
			body := res.Body.String()
			if res.Code != test.status || res.Header().Get("Content-Type") != test.contentType || !strings.Contains(body, test.body) {
				t.Errorf("status %d, type %s, body\n%s", res.Code, res.Header().Get("Content-Type"), body)
			}
			if test.status == 200 && test.contentType == asJSON && !json.Valid([]byte(body)) {
				t.Errorf("this is not JSON: %s", body)
			}
		})
	}
	o.logLevel.Close()
}

func TestOutputsAreForThoseWhoAskForOneRun(t *testing.T) {
	o := operate(theOperator())
	record(o.history, "17", "big.py", history.Succeeded, "chatter")
	api := o.api()
	if body := ask(api, "GET", "/run/list.json", nil).Body.String(); strings.Contains(body, "chatter") {
		t.Errorf("a list shows an output: %s", body)
	}
	if body := ask(api, "GET", "/run/17.json", nil).Body.String(); !strings.Contains(body, "chatter") {
		t.Errorf("the run has no output: %s", body)
	}
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
		"/hook/%zz/runs"} {
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

// TestErrorsTravelWhole sends errors to the client: nothing is cut from texts with colons, and upstream's routes have text for other
// clients.
func TestErrorsTravelWhole(t *testing.T) {
	api := operate(theOperator()).api()
	client := NewLocalClient(api)
	for path, want := range map[string]*Problem{
		"/hook/nope/why": {text: `there is no hook "nope"`, hint: "shell-operator hook list shows all hooks", code: unknownHook},
		"/hook/Pod/a/x/why": {text: `there is no hook "Pod/a/x"`, code: unknownHook,
			hint: "shell-operator hook list shows all hooks; shell-operator why --object Pod/a/x explains an object"},
		"/hook/nope/snapshots":  {text: `there is no hook "nope"`, hint: "shell-operator hook list shows all hooks", code: unknownHook},
		"/hook/draft.sh: a/why": {text: `there is no hook "draft.sh: a"`, hint: "shell-operator hook list shows all hooks", code: unknownHook},
		"/run/1:2": {text: `there is no run "1:2", or no longer`, hint: "shell-operator runs lists the known ones",
			code: "notFound"},
		"/nope": {text: "there is no /nope here", hint: "shell-operator raw --help lists all paths", code: noRoute},
	} {
		_, err := client.Get(t.Context(), (&url.URL{Path: path}).EscapedPath())
		got := new(Problem)
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("%s: %+v, want %+v", path, err, want)
		}
	}
	for text, want := range map[string]bool{
		`{"error":"there is no /sets/list here","code":"notFound"}`: true, // of an older operator
		`{"error":"another text","code":"noRoute"}`:                 true,
		`{"error":"there is no run \"1:2\"","code":"notFound"}`:     false,
	} {
		got := new(Problem)
		if err := refusalOf(404, []byte(text)); !errors.As(err, &got) || got.NoRoute() != want {
			t.Errorf("%s: no route is %t", text, got.NoRoute())
		}
	}
	if body := ask(api, "GET", "/hook/nope/snapshots", nil).
		Body.String(); body != "there is no hook \"nope\": shell-operator hook list shows all hooks\n" {
		t.Errorf("upstream's route: %q", body)
	}
	var other *Problem
	if err := refusalOf(502, []byte("bad gateway: try later\n")); !errors.As(err, &other) || other.text != "bad gateway: try later" ||
		other.hint != "" {
		t.Errorf("the answer of another program: %+v", other)
	}
}
