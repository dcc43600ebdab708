package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// route is one path of the API. It may have one "*", which stands for a name that may contain slashes.
type route struct {
	method, path, about string
	// answer is nil for routes that stream.
	answer func(*API, request) (answer, error)
	stream func(*API, http.ResponseWriter, request) error
	// upstream has the route, too: its errors are text, unless the client accepts JSON only.
	upstream bool
}

// routes are all paths.
var routes = []route{
	{method: "GET", path: "/", about: "text `debug endpoint is alive`", answer: alive, upstream: true},
	{method: "GET", path: "/queue/main", about: "the main queue", answer: queueMain, upstream: true},
	{method: "GET", path: "/queue/list", about: "all queues; `?showEmpty=true` includes empty ones", answer: queueList, upstream: true},
	{method: "POST", path: "/queue/*/retry", about: "end the delay of a failed task: form field `key`, without it of all lanes", answer: act(queueRetry)},
	{method: "POST", path: "/queue/*/skip", about: "drop a failed task: form field `key` for a keyed queue", answer: act(queueSkip)},
	{method: "POST", path: "/queue/*/pause", about: "begin no run of the queue", answer: act(queuePause)},
	{method: "POST", path: "/queue/*/resume", about: "end the pause of the queue", answer: act(queueResume)},
	{method: "GET", path: "/hook/list", about: "names of the hooks, in the order in which they were loaded", answer: hookList, upstream: true},
	{method: "GET", path: "/hook/*/snapshots", about: "what the hook's `kubernetes` bindings see", answer: hookSnapshots, upstream: true},
	{method: "GET", path: "/hook/*/config", about: "the configuration of the hook as the operator has parsed it", answer: hookConfig},
	{method: "GET", path: "/hook/*/runs", about: "the last runs of a hook; `?failed=true` shows failed ones only", answer: runList},
	{method: "GET", path: "/hook/*/why", about: "what the hook waits for", answer: why},
	{method: "GET", path: "/hook/*/tail", about: "runs of the hook as they happen, until the client disconnects", stream: tail},
	{method: "POST", path: "/hook/*/pause", about: "begin no run of the hook; requests are answered", answer: act(hookPause)},
	{method: "POST", path: "/hook/*/resume", about: "end the pause of the hook", answer: act(hookResume)},
	{method: "POST", path: "/hook/*/trigger", about: "queue a run: form field `binding`, unless the hook has only one", answer: act(hookTrigger)},
	{method: "POST", path: "/hook/*/record", about: "record all runs of the hook: form field `for`, a duration", answer: act(hookRecord)},
	{method: "GET", path: "/parked/list", about: "parked tasks", answer: parkedList},
	{method: "POST", path: "/parked/retry", about: "queue parked tasks again: form field `id`, or `all=true`", answer: act(parkedRetry)},
	{method: "POST", path: "/parked/drop", about: "drop parked tasks: form fields as above", answer: act(parkedDrop)},
	{method: "GET", path: "/finalizers/list", about: "the record of finalizers", answer: finalizersList},
	{method: "POST", path: "/finalizers/remove", about: "remove a finalizer from all objects: form fields `name` and optionally `instance`; or those of hooks from one object: `kind` and `object`", answer: act(finalizersRemove)},
	{method: "GET", path: "/sets/list", about: "the sets of objects of this installation", answer: setsList},
	{method: "GET", path: "/sets/*", about: "a set, by its id or name, with its objects", answer: setShow},
	{method: "POST", path: "/sets/delete", about: "prune a set: form field `set`, or those of `hook`; with `force=true` also those of an active hook", answer: act(setsDelete)},
	{method: "POST", path: "/sets/adopt", about: "move sets to another hook or name: form fields `set` or `hook`, and `toHook`, `toSet` or both; with `force=true` also those of an active hook, and to a set that has objects", answer: act(setsAdopt)},
	{method: "GET", path: "/run/list", about: "the last runs of all hooks; `?failed=true` as above", answer: runList},
	{method: "GET", path: "/run/*/recording", about: "the recording of a run", answer: runRecording},
	{method: "GET", path: "/run/*/context", about: "the binding contexts of a recorded run", answer: runContext},
	{method: "GET", path: "/run/*", about: "one run: `17-2` is the second attempt of task 17, `17` the last one", answer: runShow},
	{method: "GET", path: "/operation/list", about: "kinds of operations on objects that were sent, and the permissions that they need", answer: operationList},
	{method: "GET", path: "/tail", about: "runs of all hooks as they happen, until the client disconnects", stream: tail},
	{method: "GET", path: "/config/list", about: "runtime parameters", answer: configList, upstream: true},
	{method: "POST", path: "/config/set", about: "change a parameter: form fields `name`, `value` and optionally `duration`", answer: configSet, upstream: true},
	{method: "GET", path: "/status", about: "what the status page shows; `healthy` is the verdict", answer: status},
}

// Paths are the routes for GET that do not stream, in the order of the table.
func Paths() (all []string) {
	for _, r := range routes {
		if r.method == http.MethodGet && r.answer != nil {
			all = append(all, r.path)
		}
	}
	return all
}

// format is how an answer is written.
type format string

const (
	textFormat format = "text"
	jsonFormat format = "json"
	yamlFormat format = "yaml"
)

var contentTypes = map[format]string{
	textFormat: "text/plain; charset=utf-8", jsonFormat: "application/json", yamlFormat: "application/yaml",
}

// request is a request whose path is parsed.
type request struct {
	*http.Request
	format format
	// name is the part of the path that matches the "*" of the route.
	name string
}

// answer is what can be written as JSON, and perhaps as text.
type answer struct {
	// value is written as JSON unless json is set, which writes by itself.
	value any
	json  func(io.Writer) error
	// text is empty for what has no text form; plain allows it to be.
	text  string
	plain bool
}

// refusal is an error with an HTTP status, as it travels to the client.
type refusal struct {
	status int
	Text   string `json:"error"`
	// Hint is the next step.
	Hint string `json:"hint,omitempty"`
	Code code   `json:"code"`
}

// code classifies errors for programs.
type code string

const (
	unknownHook  code = "unknownHook"
	unknownQueue code = "unknownQueue"
	failed       code = "failed"
)

// codes are those of errors without one of their own, by HTTP status.
var codes = map[int]code{
	http.StatusBadRequest: "invalid", http.StatusForbidden: "forbidden", http.StatusNotFound: "notFound", http.StatusMethodNotAllowed: "methodNotAllowed",
	http.StatusConflict: "conflict", http.StatusServiceUnavailable: "unavailable",
}

func (r *refusal) Error() string { return r.Text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, Text: fmt.Sprintf(format, args...), Code: codes[status]}
}

func (r *refusal) hint(format string, args ...any) *refusal {
	r.Hint = fmt.Sprintf(format, args...)
	return r
}

func (r *refusal) as(c code) *refusal {
	r.Code = c
	return r
}

// conflict is the error of an action on the cluster or the operator, with its own hint, if it has one.
func conflict(before string, err error) *refusal {
	r := refuse(http.StatusConflict, "%s%v", before, err)
	if hinted := (interface{ Hint() string })(nil); errors.As(err, &hinted) {
		r.Hint = hinted.Hint()
		r.Text = strings.TrimSuffix(r.Text, ": "+r.Hint)
	}
	return r
}

// write writes the error as JSON, or as text with the hint behind a colon.
func (r *refusal) write(w http.ResponseWriter, asJSON bool) {
	if !asJSON {
		http.Error(w, strings.TrimSuffix(r.Text+": "+r.Hint, ": "), r.status)
		return
	}
	w.Header().Set("Content-Type", contentTypes[jsonFormat])
	w.WriteHeader(r.status)
	text, _ := marshal(r) // three texts
	_, _ = w.Write(append(text, '\n'))
}

// API serves the debug API over HTTP.
type API struct{ Options }

// New returns an API.
func New(o Options) *API { return &API{o} }

// ServeHTTP finds the route and logs that the request is complete. Upstream does that at the level info, where each command of
// a user would be a record.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpserver.LogRequest(a.Log, slog.LevelDebug, "debugEndpoint", w, r, func(w *httpserver.Response) { a.serve(w, r) })
}

func (a *API) serve(w *httpserver.Response, r *http.Request) {
	rt, req, err := find(r)
	if err == nil && rt.stream != nil {
		if err = rt.stream(a, w, req); err != nil && w.Bytes > 0 {
			a.Log.Debug("An answer has been cut off", "uri", r.URL.RequestURI(), "error", err.Error())
			return
		}
	} else if err == nil {
		var ans answer
		if ans, err = rt.answer(a, req); err == nil {
			err = ans.write(w, req.format)
		}
	}
	if err == nil || w.Bytes > 0 {
		return // what has begun cannot become an error any more
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = refuse(http.StatusInternalServerError, "%v", err).as(failed)
	}
	refused.write(w, rt.path != "" && !rt.upstream || r.Header.Get("Accept") == contentTypes[jsonFormat])
}

// find returns the route of a request. Names are tried undecoded first, because upstream does not
// decode them, and decoded if no hook has that name.
func find(r *http.Request) (route, request, error) {
	path, format := cutFormat(r.URL.EscapedPath())
	methods := ""
	for _, rt := range routes {
		name, ok := match(rt.path, path)
		if !ok {
			continue
		}
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead {
			return rt, request{r, format, name}, nil
		}
		methods = rt.method
	}
	if methods != "" {
		return route{}, request{}, refuse(http.StatusMethodNotAllowed, "%s takes %s only", path, methods)
	}
	return route{}, request{}, refuse(http.StatusNotFound, "there is no %s here", r.URL.Path).hint("docs/reference/debug-api.md lists all paths")
}

func cutFormat(path string) (string, format) {
	for _, f := range []format{textFormat, jsonFormat, yamlFormat} {
		if rest, ok := strings.CutSuffix(path, "."+string(f)); ok {
			return rest, f
		}
	}
	return path, textFormat
}

func match(pattern, path string) (name string, ok bool) {
	before, after, hasName := strings.Cut(pattern, "*")
	if !hasName {
		return "", pattern == path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(rest, after)
	return name, ok && name != ""
}

// hook finds the hook that the request names: by its name, or by the beginning of its name or of its file's name if only one
// hook has that.
func (a *API) hook(r request) (*hook.Hook, error) {
	hooks, err := a.hooks()
	if err != nil {
		return nil, err
	}
	decoded, _ := url.PathUnescape(r.name)
	for _, name := range []string{r.name, decoded} {
		for _, h := range hooks {
			if h.Name == name {
				return h, nil
			}
		}
	}
	if reason, hint := a.Operator.Skipped(decoded); reason != "" {
		return nil, refuse(http.StatusBadRequest, "%q is no hook, the file is skipped: %s", decoded, reason).hint("%s", hint)
	}
	var matching []*hook.Hook
	var names []string
	for _, h := range hooks {
		if strings.HasPrefix(h.Name, decoded) || strings.HasPrefix(path.Base(h.Name), decoded) {
			matching, names = append(matching, h), append(names, h.Name)
		}
	}
	switch {
	case len(matching) == 1:
		return matching[0], nil
	case len(matching) > 1:
		return nil, refuse(http.StatusBadRequest, "%d hooks begin with %q", len(names), decoded).hint("use the whole name, %s", strings.Join(names[:min(5, len(names))], ", "))
	}
	return nil, refuse(http.StatusBadRequest, "there is no hook %q", decoded).hint("shell-operator hook list shows all hooks").as(unknownHook)
}

func (a *API) hooks() ([]*hook.Hook, error) {
	hooks := a.Operator.Hooks()
	if hooks == nil {
		return nil, refuse(http.StatusServiceUnavailable, "hooks are still being loaded").hint("try again in a moment")
	}
	return hooks, nil
}

func (ans answer) write(w http.ResponseWriter, f format) error {
	w.Header().Set("Content-Type", contentTypes[f])
	if f == textFormat && (ans.text != "" || ans.plain) {
		_, err := io.WriteString(w, ans.text)
		return err
	}
	if ans.json == nil {
		ans.json = func(w io.Writer) error {
			text, err := marshal(ans.value)
			if err == nil {
				_, err = w.Write(text)
			}
			return err
		}
	}
	if f != yamlFormat {
		return ans.json(w)
	}
	var text bytes.Buffer
	if err := ans.json(&text); err != nil {
		return err
	}
	converted, err := yaml.JSONToYAML(text.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(converted)
	return err
}

// marshal writes JSON on one line, with the characters of the value as they are.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func alive(*API, request) (answer, error) {
	return answer{text: "debug endpoint is alive", value: "debug endpoint is alive"}, nil
}

var _ http.Handler = (*API)(nil)
