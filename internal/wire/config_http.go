package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// openAPIPath is the path of the document that the operator generates.
const openAPIPath = "/openapi.json"

// https parses the list http.
func (p *parser) https(root *object) (list []hook.HTTP) {
	routes := map[string]int{}
	parseEach(root, "http", 1, &list, func(o *object) hook.HTTP {
		before := len(p.violations)
		b := p.http(o)
		if len(p.violations) > before {
			return b
		}
		route := b.Method + " " + shape(b.Segments)
		if first, ok := routes[route]; ok {
			o.violation("path", fmt.Sprintf("%q answers the same requests as %s", b.Method+" "+b.Path, indexed("http", first)),
				"one request runs one hook: give one of them another method or path, or make one binding of both")
		} else {
			routes[route] = len(list) - 1
		}
		return b
	})
	return list
}

func (p *parser) http(o *object) hook.HTTP {
	var b hook.HTTP
	b.Name = p.bindingName(o, "http")
	b.Method = o.method()
	b.Path = o.requiredText("path")
	if jq.TypeOf(o.fields["path"]) == "string" {
		b.Segments = o.segments(b.Path)
	}
	for i, name := range o.texts("headers", 1) {
		b.Headers = append(b.Headers, o.requestHeader(indexed("headers", i), name))
	}
	if b.Timeout = o.duration("timeout"); b.Timeout != nil && *b.Timeout == 0 {
		o.violation("timeout", "is 0", "a request must have a time limit: use a duration such as \"30s\", or omit the key for 30s")
	}
	if a := o.object("allow"); a != nil {
		b.Allow = &hook.Allow{Users: a.texts("users", 0), Groups: a.texts("groups", 0)}
		notEmpty(a, "users", b.Allow.Users)
		notEmpty(a, "groups", b.Allow.Groups)
		a.close()
		if len(b.Allow.Users)+len(b.Allow.Groups) == 0 {
			a.violation("", "is empty", "list users or groups, or omit the key to use RBAC")
		}
	}
	p.includes(o, &b.Binding)
	o.close()
	return b
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (o *object) method() string {
	method := o.requiredText("method")
	if jq.TypeOf(o.fields["method"]) != "string" || slices.Contains(methods, method) {
		return method
	}
	hint := ""
	if upper := strings.ToUpper(method); slices.Contains(methods, upper) {
		hint = "write it in upper case"
	} else if upper == http.MethodOptions {
		hint = "the operator answers OPTIONS itself"
	}
	o.violation("method", notOneOf(method, methods), hint)
	return method
}

var (
	variable = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	literal  = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=:@-]+$`)
)

// segments splits a path.
func (o *object) segments(path string) []hook.Segment {
	const hint = `write a path such as "/nodes/{name}"`
	wrong := func(format string, args ...any) []hook.Segment {
		o.violation("path", fmt.Sprintf("%q ", path)+fmt.Sprintf(format, args...), hint)
		return nil
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return wrong("does not begin with a slash")
	}
	if rest == "" {
		return nil
	}
	var list []hook.Segment
	names := map[string]bool{}
	for text := range strings.SplitSeq(rest, "/") {
		switch {
		case text == "":
			return wrong("has an empty segment, or a slash at its end")
		case text == "." || text == "..":
			return wrong("has the segment %q, which cannot occur in a request", text)
		case variable.MatchString(text):
			name := strings.Trim(text, "{}")
			if names[name] {
				return wrong("has %s twice", text)
			}
			names[name] = true
			list = append(list, hook.Segment{Text: name, Variable: true})
		case strings.ContainsAny(text, "{}"):
			return wrong("has the segment %q: a variable is a whole segment, its name has letters, digits and _", text)
		case !literal.MatchString(text):
			return wrong("has the segment %q with characters that are invalid in a path; URL encoding is not supported", text)
		default:
			list = append(list, hook.Segment{Text: text})
		}
	}
	if path == openAPIPath {
		return wrong("is reserved for the document of the operator")
	}
	return list
}

// shape is equal for paths that match the same requests.
func shape(segments []hook.Segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		if s.Variable {
			b.WriteString("{}")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// secretHeaders are never passed to a hook.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

func (o *object) requestHeader(key, name string) string {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !token.MatchString(name):
		o.violation(key, fmt.Sprintf("%q is not the name of a header", name), `write for instance "X-Signature"`)
	case slices.Contains(secretHeaders, canonical):
		o.violation(key, fmt.Sprintf("%q is never passed to a hook", name), "the client is in request.user")
	}
	return canonical
}
