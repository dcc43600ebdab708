package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/shell-operator/shell-operator/internal/hook"
)

func (p *parser) http(at string, c *httpConfig) hook.HTTP {
	b := c.HTTP
	b.Binding, b.Timeout = p.common(at, &c.bindingConfig, "http"), duration(c.Timeout)
	b.Segments, _ = segments(c.Path)
	for i, name := range b.Headers {
		b.Headers[i] = http.CanonicalHeaderKey(name)
	}
	if b.Timeout != nil && *b.Timeout == 0 {
		p.violation(at+".timeout", "is 0", "a request must have a time limit: use a duration such as \"30s\", or omit the key for 30s")
	}
	if b.Allow != nil && len(b.Allow.Users)+len(b.Allow.Groups) == 0 {
		p.violation(at+".allow", "is empty", "list users or groups, or omit the key to use RBAC")
	}
	return b
}

// routes checks that a request matches one binding.
func (p *parser) routes() {
	routes := map[string]int{}
	for i, b := range p.hook.HTTP {
		route := b.Route()
		if first, ok := routes[route]; ok && b.Path != "" {
			p.violation(indexed("http", i)+".path", fmt.Sprintf("%q answers the same requests as %s", b.Method+" "+b.Path, indexed("http", first)),
				"one request runs one hook: give one of them another method or path, or make one binding of both")
		} else {
			routes[route] = i
		}
	}
}

var (
	variable = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z0-9_]*\}$`)
	literal  = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,;=:@-]+$`)
)

// segments splits a path, or returns what is wrong with it.
func segments(path string) (list []hook.Segment, problem string) {
	wrong := func(format string, args ...any) ([]hook.Segment, string) {
		return nil, fmt.Sprintf("%q ", path) + fmt.Sprintf(format, args...)
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return wrong("does not begin with a slash")
	}
	if rest == "" {
		return nil, ""
	}
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
	return list, ""
}
