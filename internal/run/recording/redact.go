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
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// redactor replaces secrets. Its key never leaves the process, so values cannot be guessed and compared.
type redactor struct{ key [32]byte }

func newRedactor() *redactor {
	r := &redactor{}
	_, _ = rand.Read(r.key[:]) // it never fails
	return r
}

// redaction is the redaction of one recording.
type redaction struct {
	*redactor
	*texts
	// bindings are the names of bindings to Secrets.
	bindings map[string]bool
	// http: the run answers an HTTP request. secretReview: it answers a review of a Secret.
	http, secretReview bool
}

// replacement returns what replaces a value.
func (d *redaction) replacement(value string) string {
	mac := hmac.New(sha256.New, d.key[:])
	mac.Write([]byte(value))
	text := marker + hex.EncodeToString(mac.Sum(nil)[:4])
	d.ours[text] = true
	d.ours[base64.StdEncoding.EncodeToString([]byte(text))] = true
	d.ours[base64.RawStdEncoding.EncodeToString([]byte(text))] = true
	return text
}

// begin collects the secrets of a run, and redacts its result. All of them are known before anything is written, because a text may be anywhere.
func (r *redactor) begin(secretBindings map[string]bool, contexts []byte, result *Result) (*redaction, error) {
	d := &redaction{redactor: r, texts: newTexts(), bindings: secretBindings}
	if err := eachPart(io.Discard, contexts, d.collect); err != nil {
		return nil, err
	}
	result.Outcome = d.outcome(result.Outcome)
	result.Error = d.replace(result.Error)
	if len(result.Output) > 0 { // together: base64 may be wrapped
		result.Output = strings.Split(d.replace(strings.Join(result.Output, "\n")), "\n")
	}
	for _, list := range [][]any{result.Operations, result.Metrics} {
		for i := range list {
			list[i] = d.identified(list[i])
		}
	}
	for _, tree := range []*any{&result.Admission, &result.Conversion, &result.HTTP, &result.File} {
		*tree = d.strings(*tree)
	}
	return d, nil
}

// copy writes the redacted binding contexts.
func (d *redaction) copy(w io.Writer, contexts []byte) error {
	return eachPart(w, contexts, func(p part, text []byte) ([]byte, error) {
		redacted, err := d.collect(p, text)
		if err != nil || len(d.with) == 0 {
			return redacted, err
		}
		return change(redacted, func(tree any) any { return d.everywhere(p, tree) })
	})
}

// part is a part of a binding context that is redacted by itself, so that only one of them is decoded at a time: a field of the context, or an
// item of objects or of a snapshot, whose field is empty and whose binding is that of the snapshot.
type part struct{ binding, kind, field string }

// eachPart copies binding contexts and changes their parts.
func eachPart(w io.Writer, contexts []byte, change func(part, []byte) ([]byte, error)) error {
	p := &partWriter{
		from:   jsontext.NewDecoder(bytes.NewReader(contexts), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		to:     jsontext.NewEncoder(w, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		change: change,
	}
	if err := p.list(p.context); err != nil {
		return fmt.Errorf("cannot read the binding contexts: %w", err)
	}
	return nil
}

type partWriter struct {
	from   *jsontext.Decoder
	to     *jsontext.Encoder
	change func(part, []byte) ([]byte, error)
}

// token copies a bracket.
func (p *partWriter) token(want jsontext.Kind) error {
	token, err := p.from.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != want {
		return fmt.Errorf("%v is in the place of %v: did the hook change the file?", token.Kind(), want)
	}
	return p.to.WriteToken(token)
}

// list copies a list item by item.
func (p *partWriter) list(item func() error) error {
	if err := p.token('['); err != nil {
		return err
	}
	for p.from.PeekKind() != ']' {
		if err := item(); err != nil {
			return err
		}
	}
	return p.token(']')
}

// object copies an object field by field.
func (p *partWriter) object(field func(name string) error) error {
	if err := p.token('{'); err != nil {
		return err
	}
	for p.from.PeekKind() != '}' {
		name, err := p.from.ReadToken()
		if err == nil {
			text := name.String()
			if err = p.to.WriteToken(jsontext.String(text)); err == nil {
				err = field(text)
			}
		}
		if err != nil {
			return err
		}
	}
	return p.token('}')
}

func (p *partWriter) part(at part) error {
	text, err := p.from.ReadValue()
	if err != nil {
		return err
	}
	if text, err = p.change(at, text); err != nil {
		return err
	}
	return p.to.WriteValue(text)
}

// context copies a context. The operator writes the binding and the type before what depends on them.
func (p *partWriter) context() error {
	var binding, kind string
	return p.object(func(name string) error {
		switch name {
		case "objects", "deleting":
			return p.list(func() error { return p.part(part{binding, kind, ""}) })
		case "snapshots":
			return p.object(func(of string) error { return p.list(func() error { return p.part(part{of, kind, ""}) }) })
		case "binding", "type":
			text, err := p.from.ReadValue()
			if err != nil {
				return err
			}
			into := &binding
			if name == "type" {
				into = &kind
			}
			if err := json.Unmarshal(text, into); err != nil {
				return err
			}
			return p.to.WriteValue(text)
		}
		if binding == "" {
			return fmt.Errorf("%q is before the binding: did the hook change the file?", name)
		}
		return p.part(part{binding, kind, name})
	})
}

// change decodes a JSON text and encodes it again.
func change(text []byte, with func(any) any) ([]byte, error) {
	var tree any
	if err := unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return marshal(with(tree))
}

// mentions reports whether a JSON text may have an object of kind Secret. Contexts are written by the operator, and the API server escapes no
// letters; with an escape of any character, the text is decoded to be sure.
func mentions(text []byte) bool {
	return bytes.Contains(text, []byte("ecret")) || bytes.Contains(text, []byte("ECRET")) || bytes.Contains(text, []byte(`\u00`))
}

// collect redacts a part in its place, and collects the texts that are replaced everywhere.
func (d *redaction) collect(p part, text []byte) ([]byte, error) {
	isHTTP := p.field == "request" && p.kind == "HTTP"
	if !d.bindings[p.binding] && !isHTTP && !mentions(text) {
		return text, nil
	}
	return change(text, func(tree any) any {
		switch {
		case isHTTP:
			d.http = true
			return d.request(tree)
		case p.field == "review":
			d.secretReview = d.secretReview || reviewsSecret(tree)
		case d.bindings[p.binding] && p.field == "":
			if item, ok := tree.(map[string]any); ok {
				return d.ofSecret(item)
			}
			return d.leaves(tree)
		case d.bindings[p.binding] && !slices.Contains(ownFields, p.field):
			return d.ofSecret(map[string]any{p.field: tree})[p.field]
		}
		return d.secrets(tree)
	})
}

// ofSecret redacts what a context has of a Secret: the objects first, because their values are the known ones. Whatever is no object is treated
// as a filter result.
func (d *redaction) ofSecret(fields map[string]any) map[string]any {
	isObject := func(field string) bool { return field == "object" || field == "previousObject" }
	for field, value := range fields {
		if isObject(field) {
			fields[field] = d.secret(value)
		}
	}
	for field, value := range fields {
		if !isObject(field) {
			fields[field] = d.filterResult(value)
		}
	}
	return fields
}

// ownFields are those of a context that the operator writes, beside the binding and the type.
var ownFields = []string{"watchEvent", "groupName", "fromVersion", "toVersion", "resourceEvent", "resourceNamespace", "resourceKind", "resourceName"}

func reviewsSecret(review any) bool {
	kind, _ := at(review, "request", "kind", "kind").(string)
	return isSecretKind(kind)
}

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

// secrets redacts all objects of kind Secret in a tree, and the items of lists of them, which have no kind.
func (d *redaction) secrets(v any) any {
	switch v := v.(type) {
	case map[string]any:
		kind, _ := v["kind"].(string)
		if isSecretKind(kind) {
			return d.secret(v)
		}
		for key, value := range v {
			if items, ok := value.([]any); ok && strings.EqualFold(kind, "SecretList") {
				for i := range items {
					items[i] = d.secret(items[i])
				}
				continue
			}
			v[key] = d.secrets(value)
		}
	case []any:
		for i := range v {
			v[i] = d.secrets(v[i])
		}
	}
	return v
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secret redacts a Secret: its data, and the annotation that has a copy of it.
func (d *redaction) secret(tree any) any {
	o, ok := tree.(map[string]any)
	if !ok {
		return d.leaves(tree)
	}
	if data, ok := o["data"].(map[string]any); ok {
		for key, value := range data {
			if text, ok := value.(string); ok {
				data[key] = d.data(text)
			} else {
				data[key] = d.leaves(value)
			}
		}
	} else if o["data"] != nil { // the API server rejects it
		o["data"] = d.leaves(o["data"])
	}
	if o["stringData"] != nil {
		o["stringData"] = d.leaves(o["stringData"])
	}
	if annotations, ok := at(o, "metadata", "annotations").(map[string]any); ok {
		if text, ok := annotations[lastApplied].(string); ok {
			var older any
			if unmarshal([]byte(text), &older) == nil {
				d.secret(older) // its values may be others
			}
			annotations[lastApplied] = d.value(text)
		}
	}
	return o
}

// data redacts a value of data: what it encodes is the secret.
func (d *redaction) data(text string) string {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if text == "" || err != nil {
		return d.value(text)
	}
	r := d.replacement(string(decoded))
	d.add(string(decoded), r)
	return base64.StdEncoding.EncodeToString([]byte(r))
}

// value redacts a text, wherever it is.
func (d *redaction) value(text string) string {
	if text == "" || d.ours[text] {
		return text
	}
	r := d.replacement(text)
	d.add(text, r)
	return r
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
		if with, known := d.with[v]; known {
			return with
		}
		if decoded, err := base64.StdEncoding.DecodeString(v); err == nil && len(decoded) > 0 && !d.ours[v] {
			encoded := base64.StdEncoding.EncodeToString([]byte(d.replacement(string(decoded))))
			d.add(v, encoded) // it may be a word that is base64 by chance
			return d.data(v)
		}
		return d.value(v)
	case json.Number:
		return d.value(v.String())
	case bool: // only here: the words are everywhere
		return d.replacement(fmt.Sprint(v))
	}
	return v
}

var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// filterResult redacts the filter result of a Secret, but for the identity of the object: hooks need it to name the object in operations. A
// text that is a value of the Secret, too, is replaced later.
func (d *redaction) filterResult(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return d.leaves(v)
	}
	for key, value := range m {
		metadata, isMap := value.(map[string]any)
		switch {
		case key == "metadata" && isMap:
			d.leavesBut(metadata, isIdentity)
		case !isIdentity(key, value):
			m[key] = d.leaves(value)
		}
	}
	return m
}

// isIdentity reports whether a field is a part of the identity of a Secret.
func isIdentity(key string, value any) bool {
	text, _ := value.(string)
	switch key {
	case "name", "namespace":
		return objectName.MatchString(text)
	case "kind":
		return isSecretKind(text)
	case "apiVersion":
		return text == "v1"
	}
	return false
}

func (d *redaction) leavesBut(m map[string]any, kept func(key string, value any) bool) {
	for key, value := range m {
		if !kept(key, value) {
			m[key] = d.leaves(value)
		}
	}
}

// outcome redacts what is about Secrets, and the answer to an HTTP request.
func (d *redaction) outcome(o Outcome) Outcome {
	for i := range o.Operations {
		o.Operations[i] = d.operation(o.Operations[i])
	}
	if answer, ok := o.Admission.(map[string]any); ok && d.secretReview {
		if list, ok := answer["patch"].([]any); ok {
			d.jsonPatch(list)
		} else if answer["patch"] != nil {
			answer["patch"] = d.leaves(answer["patch"])
		}
	}
	if d.http {
		answer, _ := o.HTTP.(map[string]any)
		d.body(answer["body"])
		d.leaves(answer["bodyBase64"])
		d.leaves(answer["headers"])
		o.HTTP = nil
		if status, ok := answer["status"]; ok {
			o.HTTP = map[string]any{"status": status}
		}
	}
	return o
}

// operation redacts an operation on a Secret, and Secrets in other ones.
func (d *redaction) operation(tree any) any {
	o, _ := tree.(map[string]any)
	objects, _ := o["objects"].([]any)
	for i := range objects {
		if kind, _ := at(objects[i], "kind").(string); isSecretKind(kind) {
			d.manifest(objects[i])
		} else {
			objects[i] = d.secrets(objects[i])
		}
	}
	kind, _ := o["kind"].(string)
	ofObject, _ := at(o, "object", "kind").(string)
	if !isSecretKind(kind) && !isSecretKind(ofObject) {
		return d.secrets(tree)
	}
	d.manifest(o["object"])
	for _, field := range []string{"type", "status", "reason", "message", "action", "note"} {
		if o[field] != nil {
			o[field] = d.leaves(o[field])
		}
	}
	if list, isList := o["patch"].([]any); isList {
		d.jsonPatch(list)
	} else if o["patch"] != nil {
		o["patch"] = d.leaves(o["patch"])
	}
	if program, ok := o["jqFilter"].(string); ok && program != "" {
		for _, quoted := range quotes.FindAllString(program, -1) {
			var text string
			if json.Unmarshal([]byte(quoted), &text) == nil {
				d.leaves(text)
			}
		}
		o["jqFilter"] = d.value(program)
	}
	return o
}

// manifest redacts the manifest of a Secret: all but its identity.
func (d *redaction) manifest(tree any) {
	object, ok := tree.(map[string]any)
	if !ok {
		return
	}
	d.secret(object) // the values of data are in base64
	d.leavesBut(object, func(key string, value any) bool {
		metadata, isMap := value.(map[string]any)
		if key == "metadata" && isMap {
			d.leavesBut(metadata, func(key string, _ any) bool { return key == "name" || key == "namespace" })
			return true
		}
		return key == "apiVersion" || key == "kind" || key == "data"
	})
}

// quotes are the texts of a jq program.
var quotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func (d *redaction) jsonPatch(list []any) {
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			d.leavesBut(m, func(key string, _ any) bool { return key == "op" || key == "path" || key == "from" })
		}
	}
}

// request redacts an HTTP request: of headers and of the query, it keeps the names.
func (d *redaction) request(tree any) any {
	r, ok := tree.(map[string]any)
	if !ok {
		return d.leaves(tree)
	}
	for _, field := range []string{"headers", "query"} {
		if values, ok := r[field].(map[string]any); ok {
			for name, value := range values {
				list, _ := value.([]any)
				for i := range list {
					text, _ := list[i].(string)
					list[i] = d.value(text)
				}
				values[name] = list
			}
		}
	}
	d.leaves(r["json"])
	delete(r, "json")
	r["body"] = d.body(r["body"])
	if text, ok := r["bodyBase64"].(string); ok {
		r["bodyBase64"] = d.data(text)
	}
	for _, field := range []string{"body", "bodyBase64"} {
		if r[field] == nil {
			delete(r, field)
		}
	}
	return r
}

// body redacts a body, and the values of a form or of JSON in it.
func (d *redaction) body(body any) any {
	text, ok := body.(string)
	if !ok {
		return nil
	}
	var tree any
	if unmarshal([]byte(text), &tree) == nil {
		d.leaves(tree)
	} else if form, err := url.ParseQuery(text); err == nil {
		for _, values := range form {
			for _, value := range values {
				d.value(value)
			}
		}
	}
	return d.value(text)
}

// everywhere replaces the collected texts in a part, but not in the context's own fields.
func (d *redaction) everywhere(p part, tree any) any {
	m, _ := tree.(map[string]any)
	switch {
	case p.field == "request" && p.kind == "HTTP":
		return d.stringsBut(m, "id", "method")
	case p.field == "review" && m != nil:
		request, ok := m["request"].(map[string]any)
		if !ok {
			return d.strings(tree)
		}
		d.stringsBut(m, "apiVersion", "kind", "request")
		d.stringsBut(request, "uid", "operation", "name", "namespace", "subResource", "requestSubResource", "kind", "resource", "requestKind", "requestResource", "desiredAPIVersion")
		return m
	case slices.Contains(ownFields, p.field):
		return tree
	}
	return d.strings(tree)
}

// identified replaces texts in an operation or a metric, but not in the identity of its object.
func (d *redaction) identified(tree any) any {
	if m, ok := tree.(map[string]any); ok && m["operation"] != nil {
		return d.stringsBut(m, "operation", "apiVersion", "kind", "namespace", "name", "subresource")
	}
	return d.strings(tree)
}

func (d *redaction) stringsBut(m map[string]any, kept ...string) any {
	for key := range m {
		if !slices.Contains(kept, key) {
			m[key] = d.strings(m[key])
		}
	}
	return m
}

// strings replaces the collected texts in all strings of a tree, but not in keys and in the identity of objects. A number is replaced if it is
// one of the texts.
func (d *redaction) strings(v any) any {
	switch v := v.(type) {
	case map[string]any:
		apiVersion, _ := v["apiVersion"].(string)
		kind, _ := v["kind"].(string)
		if apiVersion == "" || kind == "" {
			return d.stringsBut(v)
		}
		if metadata, ok := v["metadata"].(map[string]any); ok {
			d.stringsBut(metadata, "name", "namespace")
			return d.stringsBut(v, "apiVersion", "kind", "metadata")
		}
		return d.stringsBut(v, "apiVersion", "kind")
	case []any:
		for i := range v {
			v[i] = d.strings(v[i])
		}
	case string:
		return d.replace(v)
	case json.Number:
		if with, ok := d.with[v.String()]; ok {
			return with
		}
	}
	return v
}

// cut shortens a text.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + " …"
}
