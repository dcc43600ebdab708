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
)

// redactErrors removes values from the error responses and warnings of the API server. It is a transport, so that no caller sees an error
// as the API server wrote it: the messages quote objects, those that a request sends and those that it changes, Secrets included.
//
// Reason, status, object and fields stay, messages without values (known), and the text of an admission webhook, a policy or a rule of a
// CustomResourceDefinition, whose author decides what it quotes. Of a request about Secrets that text is removed, and so is
// every other message.
func redactErrors(next http.RoundTripper) http.RoundTripper { return redactingTransport{next} }

type redactingTransport struct{ next http.RoundTripper }

// WrappedRoundTripper returns the transport below.
func (t redactingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t redactingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	warnings := res.Header.Values("Warning")
	if res.StatusCode < http.StatusBadRequest && len(warnings) == 0 {
		return res, nil
	}
	r := redactor{about: aboutPath(req.URL.Path), secret: strings.Contains(req.URL.Path+"/", "/secrets/")}
	if len(warnings) > 0 {
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

// Redact removes values from an error that the API server has sent as an event of a watch.
func Redact(status *metav1.Status) { redactor{}.status(status) }

// redactor removes values from what belongs to one request.
type redactor struct {
	// about is the object of the request, or nothing. secret reports that it is about Secrets.
	about  string
	secret bool
}

func (r redactor) response(body []byte) []byte {
	var status metav1.Status
	if len(body) > maxErrorBody {
		return fmt.Appendf(nil, "a response of more than %d MiB", maxErrorBody>>20)
	}
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" { // of a proxy, or of the HTTP server before Kubernetes is reached
		if text := strings.TrimSpace(string(body)); known.MatchString(text) {
			return []byte(cut(text))
		}
		return []byte("its text is not shown, because it may quote values")
	}
	r.status(&status)
	body, err := json.Marshal(status)
	if err != nil {
		return nil
	}
	return body
}

// warnings are texts of the API server without values, and of webhooks and policies.
func (r redactor) warnings(headers []string) []string {
	parsed, _ := utilnet.ParseWarningHeaders(headers)
	var clean []string
	for _, w := range parsed {
		text := cut(w.Text)
		if r.secret && !known.MatchString(text) {
			text = "a warning whose text is not shown, because it may quote the Secret"
		}
		if text, err := utilnet.NewWarningHeader(w.Code, w.Agent, text); err == nil {
			clean = append(clean, text)
		}
	}
	return clean
}

func (r redactor) status(s *metav1.Status) {
	if !word.MatchString(string(s.Reason)) { // a webhook sets it to any text
		s.Reason = ""
	}
	details := cmp.Or(s.Details, &metav1.StatusDetails{})
	var fields []string
	for i := range details.Causes {
		cause := &details.Causes[i]
		cause.Message, _ = r.message(cause.Message)
		text := cause.Field + ": " + cmp.Or(cause.Message, string(cause.Type))
		if cause.Field != "" && !slices.Contains(fields, text) { // the API server lists some of them several times
			fields = append(fields, text)
		}
	}
	if text, kept := r.message(s.Message); kept {
		s.Message = text
		return
	}
	object := r.about
	if details.Kind != "" {
		object = fmt.Sprintf("%s %q", strings.TrimSuffix(details.Kind+"."+details.Group, "."), details.Name)
	}
	object = cmp.Or(object, "the request")
	text := object + " is invalid: " + strings.Join(fields, "; ")
	if len(fields) == 0 || s.Reason != metav1.StatusReasonInvalid {
		fields = append([]string{object, cmp.Or(string(s.Reason), http.StatusText(int(s.Code)), "failed")}, fields...)
		text = strings.Join(fields, ": ") + fmt.Sprintf(" (status %d; the text of the API server may quote values, kubectl shows it)", s.Code)
	}
	s.Message = cut(text)
}

// word is a reason of Kubernetes.
var word = regexp.MustCompile(`^\w*$`)

// withoutValues are messages of the API server without values of objects: the most frequent ones, and those that explain what a person has
// to do.
var withoutValues = []string{
	`[\w.-]+ "[^"]*" (not found|already exists)`,
	`Operation cannot be fulfilled on [\w.-]+ "[^"]*": the object has been modified; please apply your changes to the latest version ` +
		`and try again`,
	`[\w./-]+( "[^"]*")? is forbidden: User "[^"]*" cannot \w+ resource "[^"]*" in API group "[^"]*"( in the namespace "[^"]*"| at the ` +
		`cluster scope)(: RBAC: .*)?`,
	`Apply failed with \d+ conflicts?: conflicts? with .*`,
	// Strict decoding, and fields of another type, which the simulated cluster of dev/memory reports as strict decoding.
	`\w+ in version "[^"]*" cannot be handled as a \w+: json: cannot unmarshal [a-z]+ into Go struct field [\w.]+ of type [\w.*[\]]+`,
	`((\w+ in version "[^"]*" cannot be handled as a \w+: )?strict decoding error: )?` +
		`(((unknown|duplicate) field "[^"]*"|field "(\\"|[^"])*": expected [\w ()]+)(, |$))+`,
	`failed to create typed patch object \([^()]*\): (errors:)?(\s*\.\S+: field not declared in schema)+`,
	// Quota, PodSecurity, terminating namespaces.
	`[\w.-]+ "[^"]*" is forbidden: ((exceeded|failed) quota: |violates PodSecurity "[^"]*": |unable to create new content in namespace |` +
		`this namespace may not be deleted).*`,
	// Deprecated versions, and the state of the API server.
	`[\w./-]+ [\w.-]+ is deprecated in v[\d.]+\+.*`,
	`(the server|etcdserver:|too old resource version:|The resourceVersion for the provided|The provided continue parameter|` +
		`Too many requests|Unauthorized|Timeout: |Request entity too large).*`,
	// Of causes.
	`Required value`,
	`(a lowercase RFC 1123 (subdomain|label)|a DNS-1035 label|a valid (label|config key)|(name|prefix) part) must (be|consist) .*|` +
		`must be no more than \d+ (characters|bytes)`,
}

var known = regexp.MustCompile(`(?s)^(` + strings.Join(withoutValues, "|") + `)$`)

// ofValue begins a cause with the invalid text, which is removed.
var ofValue = regexp.MustCompile(`^Invalid value: "(\\.|[^"\\])*": `)

// foreign begins the text of an admission webhook, a policy or a rule of a CustomResourceDefinition.
var foreign = regexp.MustCompile(`^([\w.-]+ "[^"]*" is forbidden: )?(admission webhook "[^"]*" denied the request(: | without)|` +
	`\w+AdmissionPolicy '[^']*' with binding '[^']*' denied request: )|` +
	`^(Internal error occurred: failed calling webhook "[^"]*": |conversion webhook for [^"]* failed: )|` +
	`^Invalid value: "(object|string|integer|number|boolean|array)": `)

// uncompiled has the place and the reason of CEL that does not compile. That of webhooks is configuration, and so is a text that the
// reason quotes.
var uncompiled = regexp.MustCompile(`: compilation failed: ERROR: <input>:(\d+:\d+: .*?)( expecting \{.*)?(\n|$)`)

// message returns what is kept of a message, if anything is.
func (r redactor) message(text string) (string, bool) {
	at := foreign.FindStringIndex(text)
	compiling := uncompiled.FindStringSubmatch(text)
	switch {
	case compiling != nil && strings.Contains(r.about, "webhookconfigurations"):
		return cut("it does not compile: " + compiling[1]), true
	case at != nil && r.secret:
		return text[:at[1]] + "(its text is not shown, because it may quote the Secret)", true
	case at != nil:
		return cut(text), true
	case strings.HasSuffix(text, ": field is immutable"):
		return "field is immutable", true
	case ofValue.MatchString(text):
		return r.message(ofValue.ReplaceAllString(text, ""))
	case known.MatchString(text):
		return cut(listKey.ReplaceAllStringFunc(text, func(key string) string {
			if strings.HasPrefix(text, "Apply failed") && !harmless.MatchString(key) {
				return "[…]"
			}
			return key
		})), true
	}
	return "", false
}

// listKey is an entry of a list in the path of a field, by its index or by values; harmless is one that has no values but a name.
var (
	listKey  = regexp.MustCompile(`\[([^]"]|"(\\.|[^"\\])*")*\]`)
	harmless = regexp.MustCompile(`^\[(name="[^"]*"|\d+)\]$`)
)

// token is the secret at the end of the path of a webhook, of this operator or of another one, also when it is cut off.
var token = regexp.MustCompile(`/[0-9a-f]{32,64}\b`)

// cut removes tokens from a text, and shortens it to maxMessage bytes. No text of the API server is kept without it.
func cut(text string) string {
	const dots = "…"
	text = token.ReplaceAllString(text, "/…")
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}
