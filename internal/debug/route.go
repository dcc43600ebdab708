package debug

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

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
	// name is the part of the path that matches the "*" of the route, decoded.
	name string
	// dryRun: an action changes nothing.
	dryRun bool
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

// code classifies errors for programs.
type code string

const (
	unknownHook  code = "unknownHook"
	unknownQueue code = "unknownQueue"
	noRoute      code = "noRoute"
	failed       code = "failed"
)

// codes are the codes of errors that set none, by HTTP status.
var codes = map[int]code{
	http.StatusBadRequest: "invalid", http.StatusForbidden: "forbidden", http.StatusNotFound: "notFound",
	http.StatusMethodNotAllowed: "methodNotAllowed",
	http.StatusConflict:         "conflict", http.StatusTooManyRequests: "tooMany", http.StatusServiceUnavailable: "unavailable",
}

func refuse(status int, format string, args ...any) *Problem {
	return &Problem{status: status, Text: fmt.Sprintf(format, args...), Code: codes[status]}
}

func (p *Problem) hint(format string, args ...any) *Problem {
	p.Next = fmt.Sprintf(format, args...)
	return p
}

// meant is the hint about an unknown name: the nearest one, or else the next step.
func (p *Problem) meant(name string, names []string, otherwise string) *Problem {
	if nearest := spelling.Nearest(name, names); nearest != "" {
		return p.hint("did you mean %s?", nearest)
	}
	return p.hint("%s", otherwise)
}

func (p *Problem) as(c code) *Problem {
	p.Code = c
	return p
}

// conflict is the error of an action on the cluster or the operator, with its own hint, if it has one.
func conflict(before string, err error) *Problem {
	r := refuse(http.StatusConflict, "%s%v", before, err)
	if hinted := (interface{ Hint() string })(nil); errors.As(err, &hinted) {
		r.Next = hinted.Hint()
		r.Text = strings.TrimSuffix(r.Text, ": "+r.Next)
	}
	return r
}

// write writes the error as JSON, or as text with the hint behind a colon.
func (p *Problem) write(w http.ResponseWriter, asJSON bool) {
	if !asJSON {
		http.Error(w, strings.TrimSuffix(p.Text+": "+p.Next, ": "), p.status)
		return
	}
	w.Header().Set("Content-Type", contentTypes[jsonFormat])
	w.WriteHeader(p.status)
	text, _ := marshal(p) // three texts
	_, _ = w.Write(append(text, '\n'))
}

// ServeHTTP finds the route and logs that the request is complete. Upstream does that at the level info, where each command of
// a user would be a record.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpserver.LogRequest(a.o.Log, slog.LevelDebug, "debugEndpoint", w, r, func(w *httpserver.Response) { a.serve(w, r) })
}

func (a *API) serve(w *httpserver.Response, r *http.Request) {
	rt, req, err := a.find(r)
	leave, full := a.enter(&rt, r)
	if full == nil {
		defer leave()
	} else {
		err = full
	}
	switch {
	case err != nil:
	case rt.stream != nil:
		if err = rt.stream(w, req); err != nil && w.Bytes > 0 {
			a.o.Log.Debug("An answer has been cut off", "uri", r.URL.RequestURI(), "error", err.Error())
			return
		}
	default:
		var ans answer
		if rt.act != nil {
			ans, err = a.act(rt, req)
		} else {
			ans, err = rt.show(req)
		}
		if err == nil {
			err = ans.write(w, req.format)
		}
	}
	if err == nil || w.Bytes > 0 {
		return // what has begun cannot become an error any more
	}
	var refused *Problem
	if !errors.As(err, &refused) {
		refused = refuse(http.StatusInternalServerError, "%v", err).as(failed)
	}
	a.elsewhere(&rt, refused)
	refused.write(w, rt.Path != "" && !rt.upstream || r.Header.Get("Accept") == contentTypes[jsonFormat])
}

// find returns the route of a request.
func (a *API) find(r *http.Request) (Route, request, error) {
	path, format := cutFormat(r.URL.Path)
	methods := ""
	for _, t := range *a.topics.Load() {
		for _, rt := range t.Routes {
			name, ok := match(rt.Path, path)
			if !ok {
				continue
			}
			if rt.takes(r.Method) {
				return rt, request{Request: r, format: format, name: name}, nil
			}
			methods = rt.Method
		}
	}
	for _, rt := range a.o.Later {
		if _, ok := match(rt.Path, path); ok && rt.takes(r.Method) {
			return rt, request{}, stillLoading()
		}
	}
	if methods != "" {
		return Route{}, request{}, refuse(http.StatusMethodNotAllowed, "%s takes %s only", path, methods)
	}
	return Route{}, request{},
		refuse(http.StatusNotFound, "there is no %s here", r.URL.Path).hint("shell-operator raw --help lists all paths").as(noRoute)
}

func (rt *Route) takes(method string) bool {
	return rt.Method == method || rt.Method == http.MethodGet && method == http.MethodHead
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

func (ans answer) write(w http.ResponseWriter, f format) error {
	w.Header().Set("Content-Type", contentTypes[f])
	if f == textFormat && (ans.text != "" || ans.plain) {
		_, err := io.WriteString(w, ans.text)
		return err
	}
	if ans.json == nil {
		ans.json = func(w io.Writer) error { return encode(w, ans.value) }
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

// marshal returns JSON on one line, with the characters of the value as they are.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	err := encode(&b, value)
	return bytes.TrimSpace(b.Bytes()), err
}

func encode(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

func alive(request) (answer, error) {
	return answer{text: "debug endpoint is alive\n", value: "debug endpoint is alive"}, nil
}

var _ http.Handler = (*API)(nil)
