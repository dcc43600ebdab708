package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// largestHTTPAnswer bounds the memory of one answer.
const largestHTTPAnswer = 32 << 20

// httpHint shows an answer.
const httpHint = `write for instance {"status": 200, "json": {…}}; the keys are status, headers, and one of body, bodyBase64, json`

// ParseHTTP reads the file at HTTP_RESPONSE_PATH: one JSON object. It is checked strictly, because a typo would reach a
// client. An empty file is an answer without content.
func ParseHTTP(text []byte) (effect.HTTPAnswer, error) {
	if len(text) == 0 {
		return effect.HTTPAnswer{Status: http.StatusNoContent}, nil
	}
	answer, err := parseHTTP(text)
	if err != nil {
		return effect.HTTPAnswer{}, fmt.Errorf("the file that $HTTP_RESPONSE_PATH names is not valid: %w: %s", err, httpHint)
	}
	return answer, nil
}

func parseHTTP(text []byte) (effect.HTTPAnswer, error) {
	var in struct {
		Status     *int                      `json:"status"`
		Headers    map[string]jsontext.Value `json:"headers"`
		Body       *string                   `json:"body"`
		BodyBase64 *[]byte                   `json:"bodyBase64"`
		JSON       jsontext.Value            `json:"json"`
	}
	var out effect.HTTPAnswer
	if len(text) > largestHTTPAnswer {
		return out, fmt.Errorf("it has more than %d bytes", largestHTTPAnswer)
	}
	if jsontext.Value(text).Kind() != '{' {
		return out, errors.New("it is not a JSON object")
	}
	if err := jsonv2.Unmarshal(text, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return out, harmless(err)
	}
	out.Status = http.StatusOK
	if in.Status != nil {
		out.Status = *in.Status
	}
	if out.Status < 200 || out.Status > 599 {
		return out, fmt.Errorf("the status is %d, but must be between 200 and 599", out.Status)
	}
	var err error
	if out.Headers, err = responseHeaders(in.Headers); err != nil {
		return out, err
	}
	contentType := ""
	given := 0
	if in.Body != nil {
		out.Body, contentType, given = []byte(*in.Body), "text/plain; charset=utf-8", given+1
	}
	if in.BodyBase64 != nil {
		out.Body, contentType, given = *in.BodyBase64, "application/octet-stream", given+1
	}
	if in.JSON != nil {
		out.Body, contentType, given = append(slices.Clone(in.JSON), '\n'), "application/json", given+1
	}
	switch {
	case given > 1:
		return out, errors.New("it has more than one body")
	case len(out.Body) > 0 && (out.Status == http.StatusNoContent || out.Status == http.StatusResetContent ||
		out.Status == http.StatusNotModified):
		return out, fmt.Errorf("an answer with the status %d cannot have a body", out.Status)
	}
	if len(out.Body) > 0 && out.Headers["Content-Type"] == nil {
		out.Headers["Content-Type"] = []string{contentType}
	}
	return out, nil
}

// harmless returns an error of the JSON decoder without values, which may be secret.
func harmless(err error) error {
	if syntactic := (*jsontext.SyntacticError)(nil); errors.As(err, &syntactic) {
		return fmt.Errorf("it is not one JSON object, at byte %d", syntactic.ByteOffset)
	}
	if semantic := (*jsonv2.SemanticError)(nil); errors.As(err, &semantic) {
		at := string(semantic.JSONPointer)
		if errors.Is(err, jsonv2.ErrUnknownName) {
			return fmt.Errorf("the key %q is not known", strings.TrimPrefix(at, "/"))
		}
		key, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		return fmt.Errorf("%q must be %s", key, answerTypes[key])
	}
	return errors.New("it cannot be read")
}

// ownHeaders belong to the connection; the operator sets them.
var ownHeaders = []string{
	"Connection", "Content-Length", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func responseHeaders(in map[string]jsontext.Value) (map[string][]string, error) {
	out := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !token.MatchString(name):
			return nil, fmt.Errorf("%q is not the name of a header", name)
		case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, http.TrailerPrefix):
			return nil, fmt.Errorf("the header %s is set by the operator: leave it out", canonical)
		case out[canonical] != nil:
			return nil, fmt.Errorf("the header %s is given twice: write a list", canonical)
		}
		var one string
		values := []string{}
		if json.Unmarshal(in[name], &one) == nil && in[name].Kind() == '"' {
			values = []string{one}
		} else if json.Unmarshal(in[name], &values) != nil || in[name].Kind() != '[' {
			return nil, fmt.Errorf("the value of the header %s must be a string or a list of strings", canonical)
		}
		if slices.ContainsFunc(values, unfitForHeader) {
			return nil, fmt.Errorf("a value of the header %s has a line break or another control character", canonical)
		}
		if len(values) > 0 {
			out[canonical] = values
		}
	}
	return out, nil
}

func unfitForHeader(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
