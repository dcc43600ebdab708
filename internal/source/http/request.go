package http

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// deepestJSON is the depth that every jq reads, also inside a context.
const deepestJSON = 200

// usualHeaders are passed to every hook.
var usualHeaders = []string{
	"Accept", "Accept-Language", "Content-Type", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since",
	"Traceparent", "User-Agent", "X-Request-Id",
}

// secretHeaders are passed to none.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// segmentsOf splits a path. It returns nil for paths that no pattern matches: with empty segments, "." or "..".
func segmentsOf(u *url.URL) ([]string, error) {
	if !utf8.ValidString(u.Path) || strings.ContainsFunc(u.Path, unicode.IsControl) {
		return nil, httpserver.Refuse(http.StatusBadRequest, "the path is not text")
	}
	// An encoded slash would be part of one segment here, and separate two segments in RBAC rules.
	if strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return nil, httpserver.Refuse(http.StatusBadRequest, "the path has an encoded slash")
	}
	rest, ok := strings.CutPrefix(u.Path, "/")
	if !ok {
		return nil, httpserver.Refuse(http.StatusBadRequest, "the path does not begin with a slash")
	}
	if rest == "" {
		return []string{}, nil
	}
	segments := strings.Split(rest, "/")
	for _, s := range segments {
		if s == "" || s == "." || s == ".." {
			return nil, nil
		}
	}
	return segments, nil
}

func newID() string { return strings.ToLower(rand.Text()) }

// queryOf parses the query.
func queryOf(u *url.URL) (map[string][]string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, httpserver.Refuse(http.StatusBadRequest, "the query cannot be read")
	}
	for name, values := range query {
		if slices.ContainsFunc(append(values, name), func(s string) bool { return !utf8.ValidString(s) || strings.Contains(s, "\x00") }) {
			// Shells drop zero bytes, and would check another value than they use.
			return nil, httpserver.Refuse(http.StatusBadRequest, "the query is not text")
		}
	}
	return query, nil
}

// headersOf selects the headers that the hook gets.
func headersOf(all http.Header, b *hook.HTTP) (map[string][]string, error) {
	selected := map[string][]string{}
	for _, name := range slices.Concat(usualHeaders, b.Headers) {
		values := all.Values(name)
		if len(values) == 0 || slices.Contains(secretHeaders, name) {
			continue
		}
		if slices.ContainsFunc(values, func(s string) bool { return !utf8.ValidString(s) }) {
			return nil, httpserver.Refuse(http.StatusBadRequest, "the header %s is not UTF-8", name)
		}
		selected[name] = values
	}
	return selected, nil
}

func saysJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// checkJSON accepts one JSON text without ambiguities between parsers.
func checkJSON(text []byte) error {
	in := jsontext.NewDecoder(bytes.NewReader(text))
	for values := 0; ; {
		_, err := in.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && values == 1:
			return nil
		case err != nil:
			return httpserver.Refuse(http.StatusBadRequest, "the body is not valid JSON, at byte %d", in.InputOffset())
		case in.StackDepth() > deepestJSON:
			return httpserver.Refuse(http.StatusBadRequest, "the JSON in the body is nested more than %d levels deep", deepestJSON)
		}
		if in.StackDepth() == 0 {
			values++
		}
		if values > 1 {
			return httpserver.Refuse(http.StatusBadRequest, "the body is more than one JSON text")
		}
	}
}

// read makes the hook's input of a request.
func (c *call) read(body *httpserver.Body, to *route, segments []string) (*event.Request, error) {
	out := &event.Request{ID: c.id, Method: c.r.Method, Path: c.r.URL.Path, PathValues: to.values(segments), User: c.user}
	var err error
	if out.Query, err = queryOf(c.r.URL); err != nil {
		return nil, err
	}
	if out.Headers, err = headersOf(c.r.Header, to.binding); err != nil {
		return nil, err
	}
	if out.Body, err = body.Bytes(); err != nil {
		return nil, errors.Join(httpserver.Refuse(http.StatusBadRequest, "the body cannot be read"), err)
	}
	if out.IsJSON = len(out.Body) > 0 && saysJSON(c.r.Header.Get("Content-Type")); out.IsJSON {
		err = checkJSON(out.Body)
	}
	return out, err
}
