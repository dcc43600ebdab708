package recording

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/wire"
)

// redactor replaces secrets. Its key never leaves the process, so values cannot be guessed and compared.
type redactor struct{ key [32]byte }

func newRedactor() *redactor {
	r := &redactor{}
	_, _ = rand.Read(r.key[:]) // it never fails
	return r
}

// marker begins each replacement; 8 hexadecimal digits follow.
const marker = "redacted-"

// replacement returns what replaces a value.
func (r *redactor) replacement(value string) string {
	mac := hmac.New(sha256.New, r.key[:])
	mac.Write([]byte(value))
	return marker + hex.EncodeToString(mac.Sum(nil)[:4])
}

// pathToken is the end of a path in a registration of webhooks, by which the operator knows the API server.
var pathToken = regexp.MustCompile(`/[0-9a-f]{64}\b`)

// redaction is the redaction of one recording.
type redaction struct {
	*redactor
	// bindings are the names of bindings to Secrets.
	bindings map[string]bool
	// confidential reports that the run has Secrets, or an HTTP request: then none of its texts is kept.
	confidential bool
	// secretReview reports that the run answers a review of a Secret.
	secretReview bool
}

// copy writes the redacted binding contexts.
func (d *redaction) copy(w io.Writer, contexts []byte) error {
	// Saves a fifth of the CPU time of a small recording (BenchmarkKeep).
	if len(d.bindings) == 0 && !mentions(contexts) && !bytes.Contains(contexts, []byte(`"HTTP"`)) && bytes.HasPrefix(contexts, []byte("[")) &&
		json.Valid(contexts) {
		_, err := w.Write(contexts)
		return err
	}
	return eachPart(w, contexts, d.part)
}

// change decodes a JSON text and encodes it again.
func change(text []byte, with func(any) any) ([]byte, error) {
	var tree any
	if err := unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return marshal(with(tree))
}

// mentions reports whether a JSON text may have an object of kind Secret. Contexts are written by the operator, and the API server escapes
// no letters; with an escape of any character, the text is decoded to be sure.
func mentions(text []byte) bool {
	return bytes.Contains(text, []byte("ecret")) || bytes.Contains(text, []byte("ECRET")) || bytes.Contains(text, []byte(`\u00`))
}

// part redacts a part of a context.
func (d *redaction) part(p part, text []byte) ([]byte, error) {
	isHTTP := p.field == "request" && p.kind == "HTTP"
	ofSecret := d.bindings[p.binding] && !slices.Contains(ownFields, p.field)
	if !ofSecret && !isHTTP && !mentions(text) {
		return text, nil
	}
	return change(text, func(tree any) any {
		switch {
		case isHTTP:
			return d.request(tree)
		case p.field == "review" && isSecret(at(tree, "request", "kind")):
			d.secretReview, d.confidential = true, true
			for _, field := range []string{"object", "oldObject"} {
				if request, ok := at(tree, "request").(map[string]any); ok && request[field] != nil {
					request[field] = d.secret(request[field])
				}
			}
		case ofSecret && p.field == "":
			if item, ok := tree.(map[string]any); ok {
				return d.ofSecret(item)
			}
			d.confidential = true
			return d.leaves(tree)
		case ofSecret:
			return d.ofSecret(map[string]any{p.field: tree})[p.field]
		}
		return d.secrets(tree, d.secret)
	})
}

// ofSecret redacts what a context has of a Secret. Whatever is no object is treated as a filter result.
func (d *redaction) ofSecret(fields map[string]any) map[string]any {
	d.confidential = true
	for field, value := range fields {
		if field == "object" || field == "previousObject" {
			fields[field] = d.secret(value)
		} else {
			fields[field] = d.filterResult(value)
		}
	}
	return fields
}

// ownFields are those of a context that the operator writes, beside the binding and the type.
var ownFields = []string{"watchEvent", "groupName", "fromVersion", "toVersion", "resourceEvent", "resourceNamespace", "resourceKind",
	"resourceName"}

// at returns the value at a path, or nil.
func at(tree any, path ...string) any {
	for _, key := range path {
		m, _ := tree.(map[string]any)
		tree = m[key]
	}
	return tree
}

func isSecretKind(kind string) bool {
	return strings.EqualFold(kind, "Secret") || strings.EqualFold(kind, "secrets")
}

// isSecret reports whether an object, or what names one, is of kind Secret.
func isSecret(tree any) bool {
	kind, _ := at(tree, "kind").(string)
	return isSecretKind(kind)
}

// secrets redacts all objects of kind Secret in a tree, and the items of lists of them, which have no kind.
func (d *redaction) secrets(v any, secret func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		if isSecret(v) {
			return secret(v)
		}
		kind, _ := v["kind"].(string)
		for key, value := range v {
			if items, ok := value.([]any); ok && strings.EqualFold(kind, "SecretList") {
				for i := range items {
					items[i] = secret(items[i])
				}
				continue
			}
			v[key] = d.secrets(value, secret)
		}
	case []any:
		for i := range v {
			v[i] = d.secrets(v[i], secret)
		}
	}
	return v
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secret redacts a Secret of the cluster: its data, and the annotation that has a copy of it.
func (d *redaction) secret(tree any) any {
	d.confidential = true
	o, ok := tree.(map[string]any)
	if !ok {
		return d.leaves(tree)
	}
	for _, field := range []string{"data", "stringData"} {
		if o[field] = d.leaves(o[field]); o[field] == nil {
			delete(o, field)
		}
	}
	if annotations, ok := at(o, "metadata", "annotations").(map[string]any); ok && annotations[lastApplied] != nil {
		text, _ := annotations[lastApplied].(string)
		annotations[lastApplied] = d.value(text)
	}
	return o
}

// value redacts a text.
func (d *redaction) value(text string) string {
	if text == "" {
		return text
	}
	return d.replacement(text)
}

// leaf redacts a text, or what it encodes, as the data of a Secret is: base64 stays base64.
func (d *redaction) leaf(text string) string {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(decoded) == 0 {
		return d.value(text)
	}
	return base64.StdEncoding.EncodeToString([]byte(d.replacement(string(decoded))))
}

// leaves redacts every leaf of a tree.
func (d *redaction) leaves(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = d.leaves(v[key])
		}
	case []any:
		for i := range v {
			v[i] = d.leaves(v[i])
		}
	case string:
		return d.leaf(v)
	case json.Number:
		return d.value(v.String())
	case bool:
		return d.replacement(fmt.Sprint(v))
	}
	return v
}

var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// filterResult redacts the filter result of a Secret, but for the identity of the object: hooks need it to name the object in operations.
func (d *redaction) filterResult(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return d.leaves(v)
	}
	return d.leavesBut(m, func(key string, value any) bool {
		if metadata, isMap := value.(map[string]any); isMap && key == "metadata" {
			d.leavesBut(metadata, isIdentity)
			return true
		}
		return isIdentity(key, value)
	})
}

// isIdentity reports whether a field is a part of the identity of a Secret.
func isIdentity(key string, value any) bool {
	text, _ := value.(string)
	switch key {
	case "name", "namespace":
		return len(text) <= 253 && objectName.MatchString(text)
	case "kind":
		return isSecretKind(text)
	case "apiVersion":
		return text == "v1"
	}
	return false
}

func (d *redaction) leavesBut(m map[string]any, kept func(key string, value any) bool) map[string]any {
	for key, value := range m {
		if !kept(key, value) {
			m[key] = d.leaves(value)
		}
	}
	return m
}

// outcome redacts what is about Secrets.
func (d *redaction) outcome(o *Outcome) {
	for i := range o.Operations {
		o.Operations[i] = d.operation(o.Operations[i])
	}
	o.Conversion = d.secrets(o.Conversion, d.secret)
	if answer, ok := o.Admission.(map[string]any); ok && answer["patch"] != nil {
		if d.secretReview {
			answer["patch"] = d.jsonPatch(answer["patch"])
		} else {
			answer["patch"] = d.secrets(answer["patch"], d.manifest)
		}
	}
}

// keptKeys are those of an operation on a Secret that have no values of it, keptNames those of a reference to one.
var (
	keptKeys  = wire.KeysOf[wire.Operation]("word")
	keptNames = wire.KeysOf[wire.Reference]("word")
)

// operation redacts an operation on a Secret, and Secrets in other ones.
func (d *redaction) operation(tree any) any {
	o, ok := tree.(map[string]any)
	if !ok || !isSecret(o) && !isSecret(o["object"]) && !isSecret(o["regarding"]) && !isSecret(o["owner"]) {
		return d.secrets(tree, d.manifest)
	}
	d.confidential = true
	return d.leavesBut(o, func(key string, value any) bool {
		switch key {
		case "object":
			o[key] = d.manifest(value)
		case "objects":
			o[key] = d.secrets(value, d.manifest)
		case "regarding", "owner":
			if m, isMap := value.(map[string]any); isMap {
				d.leavesBut(m, func(key string, _ any) bool { return slices.Contains(keptNames, key) })
			}
		case "jsonPatch":
			o[key] = d.jsonPatch(value)
		default:
			return slices.Contains(keptKeys, key)
		}
		return true
	})
}

// manifest redacts a Secret that a hook writes: all but its identity.
func (d *redaction) manifest(tree any) any {
	d.confidential = true
	object, ok := tree.(map[string]any)
	if !ok {
		return d.leaves(tree)
	}
	return d.leavesBut(object, func(key string, value any) bool {
		metadata, isMap := value.(map[string]any)
		if key == "metadata" && isMap {
			d.leavesBut(metadata, func(key string, _ any) bool { return key == "name" || key == "namespace" })
			return true
		}
		return key == "apiVersion" || key == "kind"
	})
}

// jsonPatch redacts the values of a patch.
func (d *redaction) jsonPatch(tree any) any {
	list, ok := tree.([]any)
	if !ok {
		return d.leaves(tree)
	}
	for i, item := range list {
		if m, ok := item.(map[string]any); ok {
			d.leavesBut(m, func(key string, _ any) bool { return key == "op" || key == "path" || key == "from" })
		} else {
			list[i] = d.leaves(item)
		}
	}
	return list
}

var (
	kindSecret = regexp.MustCompile(`(?i)kind\W*secrets?(list)?(\W|$)`)
	// hidden are the ways to write a letter as something else in JSON and YAML.
	hidden = regexp.MustCompile(`(?i)secret|\\[xu\r\n]|!!?binary`)
)

// operationsText marks the run as confidential if operations may be on Secrets that are in no form: those of a file that is not valid,
// those that a later one replaces, and what is in keys that the operation does not have.
func (d *redaction) operationsText(text []byte, valid bool) {
	d.confidential = d.confidential || mentions(text) && kindSecret.Match(text) || !valid && hidden.Match(text)
}

// request redacts an HTTP request: it keeps the names of query values, and neither headers nor the body.
func (d *redaction) request(tree any) any {
	d.confidential = true
	r, ok := tree.(map[string]any)
	if !ok {
		return d.leaves(tree)
	}
	for _, field := range []string{"headers", "query"} {
		if values, ok := r[field].(map[string]any); ok {
			for name := range values {
				values[name] = d.texts(values[name])
			}
		}
	}
	if r["body"] != nil {
		text, _ := r["body"].(string)
		r["body"] = d.value(text)
	}
	if r["bodyBase64"] != nil {
		r["bodyBase64"] = d.leaves(r["bodyBase64"])
	}
	delete(r, "json")
	return r
}

// texts redacts a list of texts, which stay texts.
func (d *redaction) texts(tree any) any {
	list, ok := tree.([]any)
	if !ok {
		return d.leaves(tree)
	}
	for i := range list {
		text, _ := list[i].(string)
		list[i] = d.value(text)
	}
	return list
}

// cut shortens a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " …"
}
