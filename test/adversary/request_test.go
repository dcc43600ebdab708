package adversary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// request is one to the API server, as an adversary sees it.
type request struct {
	// verb is a verb of RBAC, or "apply" for a server-side apply.
	verb                                           string
	group, version, resource, namespace, name, sub string
	query                                          url.Values
	body                                           []byte
	// hooks is true for the kubectl of a hook.
	hooks bool
}

// parse returns false for what is not about an object, or of no interest: Leases, Events, reviews and dry runs.
func parse(r *http.Request) (q request, ok bool) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case path[0] == "api" && len(path) > 2:
		q.version, path = path[1], path[2:]
	case path[0] == "apis" && len(path) > 3:
		q.group, q.version, path = path[1], path[2], path[3:]
	default:
		return q, false
	}
	if path[0] == "namespaces" && len(path) > 2 && path[2] != "status" && path[2] != "finalize" {
		q.namespace, path = path[1], path[2:]
	}
	path = append(path, "", "")
	q.resource, q.name, q.sub = path[0], path[1], path[2]
	q.query, q.hooks = r.URL.Query(), strings.HasPrefix(r.UserAgent(), "kubectl")
	switch r.Method {
	case http.MethodGet:
		q.verb = "get"
		switch {
		case q.query.Get("watch") != "":
			q.verb = "watch"
		case q.name == "":
			q.verb = "list"
		}
	case http.MethodPost:
		q.verb = "create"
	case http.MethodPut:
		q.verb = "update"
	case http.MethodPatch:
		q.verb = "patch"
		if strings.Contains(r.Header.Get("Content-Type"), "apply") {
			q.verb = "apply"
		}
	case http.MethodDelete:
		q.verb = "delete"
	}
	ignored := []string{"leases", "events", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}
	return q, !slices.Contains(ignored, q.resource) && q.query.Get("dryRun") == ""
}

func (q *request) reads() bool { return q.verb == "get" || q.verb == "list" || q.verb == "watch" }

// kind is the resource with group and subresource.
func (q *request) kind() string {
	kind := q.resource
	if q.group != "" {
		kind += "." + q.group
	}
	if q.sub != "" {
		kind += "/" + q.sub
	}
	return kind
}

// read takes the body from the request, and puts it back.
func (q *request) read(r *http.Request) {
	q.body, _ = io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(q.body))
	if q.name == "" {
		var o struct {
			Metadata struct{ Name, GenerateName string }
		}
		_ = json.Unmarshal(q.body, &o)
		q.name = o.Metadata.Name + o.Metadata.GenerateName
	}
}

var number = regexp.MustCompile(`\d+`)

// fields are what a request writes, to two levels, without the indexes of lists. Requests with equal ones are alike.
func (q *request) fields() string {
	var fields []string
	var operations []struct{ Op, Path string }
	if json.Unmarshal(q.body, &operations) == nil {
		for _, o := range operations {
			if o.Op != "test" {
				fields = append(fields, o.Op+number.ReplaceAllString(o.Path, "N"))
			}
		}
	}
	var object map[string]any
	if json.Unmarshal(q.body, &object) == nil {
		for key, value := range object {
			inner, isObject := value.(map[string]any)
			for under := range inner {
				fields = append(fields, key+"."+under)
			}
			if !isObject {
				fields = append(fields, key)
			}
		}
	}
	slices.Sort(fields)
	return strings.Join(slices.Compact(fields), " ")
}

// answer is a complete response of the API server.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request, whose answer is not a stream.
func ask(next http.Handler, r *http.Request) *answer {
	w := httptest.NewRecorder()
	next.ServeHTTP(w, r)
	return &answer{w.Code, w.Header(), w.Body.Bytes()}
}

// refusal is an answer with an error of the API server.
func refusal(status int, reason, message string) *answer {
	a := &answer{status: status, header: http.Header{"Content-Type": {"application/json"}}}
	if status == http.StatusTooManyRequests {
		a.header.Set("Retry-After", "1")
	}
	a.body = fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`,
		reason, message, status)
	return a
}

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// object is what answers and events have of an object.
type object struct {
	Metadata struct{ UID, ResourceVersion string }
}

func (a *answer) object() (o object) {
	_ = json.Unmarshal(a.body, &o)
	return o
}
