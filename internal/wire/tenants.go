package wire

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

var tenantsDocument = document{"it", "name", "write a list with an entry for each tenant, such as " +
	"- {name: shop, folder: shop/, serviceAccount: shop/hooks}", nil}

// ParseTenants parses the file of tenants, in its order. An error is a *FileError. What is a warning in a configuration is an error
// here: a limit or an account that does not count would not be noticed.
func ParseTenants(text []byte) ([]*hook.Tenant, error) {
	f := &parser{document: tenantsDocument}
	value, ok := f.decodeValue(text)
	list, isList := value.([]any)
	switch {
	case ok && value == nil:
		f.violations = append(f.violations, Violation{Problem: "it is empty", Hint: "write [] if there are no tenants"})
	case ok && !isList:
		f.violations = append(f.violations, Violation{
			Problem: fmt.Sprintf("it must be a list, not %s", withArticle(jq.TypeOf(value))), Hint: tenantsDocument.hint})
	}
	for _, w := range f.warnings {
		f.violations = append(f.violations, Violation{Path: w.Path, Problem: w.Problem, Hint: "remove one"})
	}
	found := f.violations
	var tenants []*hook.Tenant
	for i, value := range list {
		p := &parser{document: tenantsDocument}
		t := p.tenant(value, tenants)
		tenants = append(tenants, t)
		entry := fmt.Sprintf("entry %d", i+1)
		if t.Name != "" {
			entry += fmt.Sprintf(" (tenant %q)", t.Name)
		}
		for _, v := range p.violations {
			v.Path = strings.TrimSpace(entry + ": " + v.Path)
			found = append(found, v)
		}
	}
	if len(found) > 0 {
		return nil, &FileError{found, notValid("the file of tenants", found)}
	}
	return tenants, nil
}

// tenant parses an entry, and compares it with those before.
func (p *parser) tenant(value any, before []*hook.Tenant) *hook.Tenant {
	t := &hook.Tenant{}
	fields, ok := value.(map[string]any)
	if !ok {
		p.violations = append(p.violations, Violation{
			Problem: fmt.Sprintf("it must be an object, not %s", withArticle(jq.TypeOf(value))),
			Hint:    "write {name: …, folder: …, serviceAccount: …}"})
		return t
	}
	o := &object{p: p, fields: fields}
	t.Name = o.dnsLabel("name")
	if i := slices.IndexFunc(before, func(b *hook.Tenant) bool { return t.Name != "" && b.Name == t.Name }); i >= 0 {
		o.violation("name", fmt.Sprintf("%q is that of entry %d, too", t.Name, i+1), "give each tenant its own name")
	}
	t.Folder = o.folder()
	if i := slices.IndexFunc(before, func(b *hook.Tenant) bool { return t.Folder != "" && b.Folder == t.Folder }); i >= 0 {
		o.violation("folder", fmt.Sprintf("%q is that of entry %d, too", t.Folder, i+1),
			"a folder belongs to one tenant; folders below it may have others")
	}
	t.ServiceAccount = o.serviceAccount()
	if limits := o.object("limits"); limits != nil {
		t.Limits = limits.limits()
		limits.close()
	}
	for i, namespace := range o.texts("webhooks", 0) {
		key := indexed("webhooks", i)
		switch {
		case len(validation.IsDNS1123Label(namespace)) > 0:
			o.violation(key, fmt.Sprintf("%q is not the name of a namespace", namespace), labelHint)
		case slices.Contains(t.Webhooks, namespace):
			o.violation(key, fmt.Sprintf("%q is in the list already", namespace), "remove one")
		default:
			t.Webhooks = append(t.Webhooks, namespace)
		}
	}
	slices.Sort(t.Webhooks)
	o.close()
	return t
}

// given reads a required text; it is empty after a violation.
func (o *object) given(key string) string {
	before := len(o.p.violations)
	text := o.requiredText(key)
	if text == "" && len(o.p.violations) == before {
		o.violation(key, "is empty", "set a value")
	}
	return text
}

const labelHint = "use at most 63 lower-case letters, digits and dashes, with a letter or a digit at both ends"

func (o *object) dnsLabel(key string) string {
	text := o.given(key)
	if text != "" && len(validation.IsDNS1123Label(text)) > 0 {
		o.violation(key, fmt.Sprintf("%q is not a name", text), labelHint)
	}
	return text
}

// folder reads a path below the hooks directory.
func (o *object) folder() string {
	text := o.given("folder")
	if text == "" {
		return ""
	}
	clean := filepath.ToSlash(filepath.Clean(text))
	switch {
	case !filepath.IsLocal(text):
		o.violation("folder", fmt.Sprintf("%q is not below the hooks directory", text),
			"write its path relative to the hooks directory, such as shop/")
	case clean == ".":
		o.violation("folder", fmt.Sprintf("%q is the hooks directory itself", text), "name a folder of it, such as shop/")
	case clean != strings.TrimSuffix(text, "/"):
		o.violation("folder", fmt.Sprintf("%q has superfluous elements", text), fmt.Sprintf("write %s/", clean))
	}
	return clean + "/"
}

func (o *object) serviceAccount() hook.ServiceAccount {
	const hint = "write NAMESPACE/NAME, such as shop/hooks"
	text := o.given("serviceAccount")
	namespace, name, both := strings.Cut(text, "/")
	switch {
	case text == "":
	case !both:
		o.violation("serviceAccount", fmt.Sprintf("%q has no namespace", text), hint)
	case len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0:
		o.violation("serviceAccount", fmt.Sprintf("%q is not an account", text), hint)
	}
	return hook.ServiceAccount{Namespace: namespace, Name: name}
}

func (o *object) limits() (l hook.Limits) {
	l.Memory, l.Files, l.Output = o.bytes("memory"), o.bytes("files"), o.bytes("output")
	if d := o.duration("cpuTime"); d != nil {
		if l.CPUTime = *d; *d < time.Second || *d%time.Second != 0 {
			o.violation("cpuTime", "is "+shortDuration(*d), "use whole seconds, 1s or more; no limit is the key left out")
		}
	}
	l.OpenFiles, l.Concurrency, l.Series = o.positive("openFiles"), o.positive("concurrency"), o.positive("series")
	return l
}

// positive reads a number from 1 on.
func (o *object) positive(key string) int {
	n := o.integer(key)
	if n == nil {
		return 0
	}
	if *n < 1 {
		o.violation(key, fmt.Sprintf("is %d", *n), "use 1 or more; no limit is the key left out")
	}
	return *n
}

// bytes reads a quantity of bytes.
func (o *object) bytes(key string) int64 {
	const hint = "write bytes as a number, or with a unit of Kubernetes, such as 256Mi"
	v, ok := o.lookup(key)
	if !ok {
		return 0
	}
	text, isText := v.(string)
	if number, isNumber := v.(json.Number); isNumber {
		text, isText = number.String(), true
	}
	if !isText {
		o.wrongType(key, "string", v)
		return 0
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		o.violation(key, fmt.Sprintf("%q is not a quantity", text), hint)
		return 0
	}
	n, whole := q.AsInt64()
	switch {
	case !whole:
		o.violation(key, fmt.Sprintf("%q is not a whole number of bytes below 8Ei", text), hint)
	case n < 1:
		o.violation(key, fmt.Sprintf("is %q", text), "use 1 or more; no limit is the key left out")
	}
	return n
}
