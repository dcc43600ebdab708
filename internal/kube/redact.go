package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxMessage is the length to which messages of the API server are cut.
	maxMessage = 500
	// maxErrorBody is far above the largest object, which an error quotes twice.
	maxErrorBody = 16 << 20
	// minValue is the length of the shortest value that is looked for in a message: shorter ones are in any text.
	minValue = 4
)

// redacted replaces removed text.
const redacted = "…"

// redactErrors removes values from the error responses and warnings of the API server. It is a transport, so that no
// caller sees an error as the API server wrote it: the messages quote objects, those that a request sends and those that
// it changes, Secrets included.
//
// Reasons, fields, and the names of objects, users and webhooks stay. Text in quotes or braces is removed, and so is
// every value of the request, wherever the message repeats it. Texts of admission webhooks about Secrets are removed.
func redactErrors(next http.RoundTripper) http.RoundTripper { return redactingTransport{next} }

type redactingTransport struct{ next http.RoundTripper }

// WrappedRoundTripper returns the transport below.
func (t redactingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t redactingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r := redactor{secret: strings.Contains(req.URL.Path+"/", "/secrets/"), body: requestBody(req)}
	if warnings := res.Header.Values("Warning"); len(warnings) > 0 {
		res.Header["Warning"] = deliver(req, r.warnings(warnings))
	}
	if res.StatusCode < http.StatusBadRequest {
		return res, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody+1))
	_ = res.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot read the error of the API server: %w", err)
	}
	body = r.response(body)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return res, nil
}

// requestBody returns a function that reads the body of a request again.
func requestBody(req *http.Request) func() []byte {
	return func() []byte {
		if req.GetBody == nil {
			return nil
		}
		body, err := req.GetBody()
		if err != nil {
			return nil
		}
		defer body.Close()
		text, _ := io.ReadAll(body)
		return text
	}
}

// Redact removes values from an error that the API server has sent as an event of a watch.
func Redact(status *metav1.Status) { (&redactor{}).status(status) }

// redactor removes values from what belongs to one request.
type redactor struct {
	// secret reports that the request is about Secrets.
	secret bool
	// body reads the request's body, which may be nil.
	body func() []byte
	// dropped are quoted texts that were removed. Messages often repeat them without quotes.
	dropped []string
}

func (r *redactor) response(body []byte) []byte {
	var status metav1.Status
	if len(body) > maxErrorBody {
		return fmt.Appendf(nil, "a response of more than %d MiB", maxErrorBody>>20)
	}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" {
		return []byte(r.message(string(body))) // of a proxy, or of the HTTP server before Kubernetes is reached
	}
	r.status(&status)
	body, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return body
}

func (r *redactor) warnings(headers []string) []string {
	parsed, _ := utilnet.ParseWarningHeaders(headers)
	var clean []string
	for _, w := range parsed {
		if text, err := utilnet.NewWarningHeader(w.Code, w.Agent, r.message(w.Text)); err == nil {
			clean = append(clean, text)
		}
	}
	return clean
}

func (r *redactor) status(s *metav1.Status) {
	fields := s.Details != nil && len(s.Details.Causes) > 0
	if s.Details != nil {
		for i := range s.Details.Causes {
			cause := &s.Details.Causes[i]
			cause.Message = r.message(cause.Message)
			fields = fields && cause.Field != ""
		}
	}
	if fields && s.Reason == metav1.StatusReasonInvalid {
		s.Message = invalid(s.Details)
	} else {
		s.Message = r.message(s.Message)
	}
}

// invalid makes a message of the fields that are invalid. The API server lists some of them several times.
func invalid(d *metav1.StatusDetails) string {
	var fields []string
	for _, cause := range d.Causes {
		text := cause.Field + ": " + cause.Message
		if !slices.Contains(fields, text) {
			fields = append(fields, text)
		}
	}
	object := "the object"
	if d.Kind != "" {
		object = d.Kind
		if d.Group != "" {
			object += "." + d.Group
		}
		object = fmt.Sprintf("%s %q", object, d.Name)
	}
	return cut(object + " is invalid: " + strings.Join(fields, "; "))
}

// plain are messages of the API server without any values. They are by far the most frequent ones.
var plain = regexp.MustCompile(`^(` +
	`[\w.-]+ "[^"]*" (not found|already exists)` + `|` +
	`Operation cannot be fulfilled on [\w.-]+ "[^"]*": the object has been modified; please apply your changes to the latest version ` +
	`and try again` + `|` +
	`[\w./-]+( "[^"]*")? is forbidden: User "[^"]*" cannot \w+ resource "[^"]*" in API group "[^"]*"( in the namespace "[^"]*"| at the ` +
	`cluster scope)(: RBAC: .*)?` +
	`)$`)

// foreign begins the text of an admission webhook or a policy.
var foreign = regexp.MustCompile(`denied (the )?request: `)

// decoding errors have values without quotes.
var decoding = regexp.MustCompile(`(cannot unmarshal number|invalid character) ('.*?'|[-+.\deE]*\d)`)

// message removes values from a message and cuts it.
func (r *redactor) message(text string) string {
	if plain.MatchString(text) {
		return cut(text)
	}
	own, denial := text, ""
	if at := foreign.FindStringIndex(text); at != nil {
		own, denial = text[:at[1]], text[at[1]:]
	}
	own = decoding.ReplaceAllString(own, "$1")
	b := r.unquote(own, named)
	switch {
	case denial == "":
	case r.secret:
		b += "(its text is not shown, because it may quote the Secret)"
	default:
		b += r.unquote(quotes.ReplaceAllString(denial, "$1"+redacted+"$2"), func(string, string) bool { return false })
	}
	return cut(r.withoutValues(b))
}

// quotes are those that webhooks use besides double ones. An apostrophe is inside a word.
var quotes = regexp.MustCompile("(^|[^\\w])(?:'[^']*'|`[^`]*`)([^\\w]|$)")

// names come before a quoted name, which is no value of an object. At the beginning of a message that is a resource or a
// kind, if what follows says so.
var (
	names = regexp.MustCompile(
		`((^|[\s("])(User|resource|group|namespace|webhook|service|serviceaccount|configmap|secret|container|volume|PodSecurity|` +
			`version|kind|field|with|Post|quota)|\[name=) ?$`)
	resource  = regexp.MustCompile(`^[\w.-]+ $`)
	predicate = regexp.MustCompile(`^ (is (forbidden|invalid)|not found|already exists)\b`)
)

// supported begins the list of values that a field may have.
const supported = "supported values: "

// named reports whether the text around a quoted one marks it as a name.
func named(before, after string) bool {
	return names.MatchString(before[max(0, len(before)-40):]) || strings.Contains(before, supported) ||
		resource.MatchString(before) && predicate.MatchString(after)
}

// unquote removes text in quotes, unless keep allows it for the text around it, and in braces. After a quote or a brace
// without end, everything is removed.
func (r *redactor) unquote(s string, keep func(before, after string) bool) string {
	var b strings.Builder
	for s != "" {
		switch {
		case s[0] == '"':
			end := quoted(s)
			if closed := end > 1 && s[end-1] == '"'; closed && keep(b.String(), s[end:]) {
				b.WriteString(s[:end])
			} else {
				r.drop(s[:end])
				b.WriteString(redacted)
			}
			s = s[end:]
		case s[0] == '{' || s[0] == '[' && (afterValue(b.String()) || strings.Contains(s[:bracketed(s)], ":")):
			b.WriteString(redacted)
			s = s[bracketed(s):]
		case s[0] != ' ' && afterValue(b.String()):
			b.WriteString(redacted) // a number, or something that has no quotes
			s = s[cmp.Or(max(0, strings.Index(s, ": ")), len(s)):]
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return b.String()
}

// afterValue reports whether a value comes next that the API server rejects.
func afterValue(before string) bool {
	for _, word := range []string{"Invalid value: ", "Unsupported value: ", "Duplicate value: ", "Not found: ", "Too many: ", "Too few: "} {
		if strings.HasSuffix(before, word) {
			return true
		}
	}
	return false
}

// quoted returns the length of the quoted text at the beginning of s.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// bracketed returns the length of what the bracket at the beginning of s encloses.
func bracketed(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i += quoted(s[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

func (r *redactor) drop(quoted string) {
	text, err := strconv.Unquote(quoted)
	if err != nil {
		text = strings.Trim(quoted, `"`)
	}
	if len(text) >= minValue {
		r.dropped = append(r.dropped, text)
	}
}

// withoutValues removes values of the request, and quoted texts that have been removed elsewhere.
func (r *redactor) withoutValues(text string) string {
	values := slices.Clone(r.dropped)
	if r.body != nil {
		values = append(values, scalars(r.body())...)
	}
	values = slices.DeleteFunc(values, func(v string) bool { return len(v) > len(text) })
	// The longest first: one value may be a part of another.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, value := range slices.Compact(values) {
		pairs = append(pairs, value, redacted)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// scalars returns the values of a manifest or a patch that are long enough to be recognized. What identifies an object
// or a field is no value.
func scalars(body []byte) []string {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // as they are written
	if decoder.Decode(&tree) != nil {
		return nil
	}
	if manifest, ok := tree.(map[string]any); ok {
		delete(manifest, "apiVersion")
		delete(manifest, "kind")
		if metadata, ok := manifest["metadata"].(map[string]any); ok {
			for _, key := range []string{"name", "namespace", "generateName"} {
				delete(metadata, key)
			}
		}
	}
	if operations, ok := tree.([]any); ok {
		for _, one := range operations {
			if op, ok := one.(map[string]any); ok {
				for _, key := range []string{"op", "path", "from"} {
					delete(op, key)
				}
			}
		}
	}
	var values []string
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for _, child := range node {
				walk(child)
			}
		case []any:
			for _, child := range node {
				walk(child)
			}
		case string, json.Number:
			if text := fmt.Sprint(node); len(text) >= minValue {
				values = append(values, text)
			}
		}
	}
	walk(tree)
	return values
}

// cut shortens a text to maxMessage bytes.
func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len(redacted)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + redacted
}
