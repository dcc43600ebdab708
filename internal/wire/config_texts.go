package wire

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/schema"
)

// formats are the checks of texts that have a format in the schema.
func (p *parser) formats() schema.Formats {
	return schema.Formats{
		"go-duration": checkDuration, "retry-delay": durationBetween(100*time.Millisecond, 0), // bounds how often a failing hook runs
		"requeue-after": durationBetween(time.Second, 720*time.Hour), "retry-after": durationBetween(0, 24*time.Hour),
		"api-version": checkAPIVersion, "finalizer": checkFinalizer,
		"condition-type": checkConditionType, "namespace": checkNamespace, "webhook-name": checkWebhookName,
		"qualified-name": checkQualifiedName, "header": checkHeader,
		"jq": p.checkFilter, "crontab": p.checkCrontab, "lane-key": p.checkLaneKey,
		"route": func(text string) (problem, hint string) {
			_, problem = segments(text)
			return problem, `write a path such as "/nodes/{name}"`
		},
	}
}

func (p *parser) checkCrontab(text string) (problem, hint string) {
	if err := p.CheckCrontab(text); err != nil {
		return fmt.Sprintf("%q is invalid: %v", text, err), ""
	}
	return "", ""
}

func (p *parser) checkFilter(text string) (problem, hint string) {
	if text == "" {
		return "", ""
	}
	if _, err := p.JQ.Compile(text); err != nil {
		return fmt.Sprintf("does not compile: %v", err), p.filterHint(text)
	}
	return "", ""
}

var (
	// A path without its dot; functions of jq begin with other words.
	bareField = regexp.MustCompile(`^(metadata|spec|status|data|kind|apiVersion|[A-Za-z_]\w*[.[])`)
	// A field whose name jq reads as a subtraction.
	dashedField = regexp.MustCompile(`\.(\w+(?:-\w+)+)`)
)

// filterHint is the probable correction of a filter that does not compile.
func (p *parser) filterHint(text string) string {
	right := text
	if bareField.MatchString(right) {
		right = "." + right
	}
	right = dashedField.ReplaceAllString(right, `["$1"]`)
	if right = strings.ReplaceAll(right, `.["`, `["`); right != text {
		if strings.HasPrefix(right, `["`) {
			right = "." + right
		}
		if _, err := p.JQ.Compile(right); err == nil {
			return "write " + right
		}
	}
	if emptyField.MatchString(text) {
		return fmt.Sprintf("the filter that arrived is %q: a $ in a here-document without quotes? write <<'YAML'", text)
	}
	return "try it with the jq command"
}

// emptyField is a path without its last name, such as a shell leaves of .labels.$app.
var emptyField = regexp.MustCompile(`\w\.(\s*$|[\s,)|}\]])`)

func (p *parser) checkLaneKey(text string) (problem, hint string) {
	switch {
	case text == string(hook.ByObject) || text == string(hook.ByNamespace):
		return "", ""
	case strings.HasPrefix(text, "."):
		return p.checkFilter(text)
	}
	hint = suggestion(text, []string{string(hook.ByObject), string(hook.ByNamespace)})
	if hint == "" {
		hint = `use object, namespace, or a jq expression that begins with a dot, such as .spec.customer`
	}
	return fmt.Sprintf("%q is not a key", text), hint
}

func checkDuration(text string) (problem, hint string) {
	if d, err := time.ParseDuration(text); err != nil || d < 0 {
		return fmt.Sprintf("%q is not a duration", text), `use a number with a unit, such as "300ms", "3s" or "1m30s"`
	}
	return "", ""
}

// durationBetween checks a duration with bounds; a maximum of 0 is none.
func durationBetween(least, most time.Duration) func(text string) (problem, hint string) {
	return func(text string) (problem, hint string) {
		if problem, hint = checkDuration(text); problem != "" {
			return problem, hint
		}
		switch d := *duration(text); {
		case most == 0 && d < least:
			return "is " + shortDuration(d), "use " + shortDuration(least) + " or more"
		case most > 0 && (d < least || d > most):
			return "is " + shortDuration(d), fmt.Sprintf("use %s to %s", shortDuration(least), shortDuration(most))
		}
		return "", ""
	}
}

// duration parses a text; it is nil for an empty one.
func duration(text string) *time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil
	}
	return &d
}

func checkAPIVersion(text string) (problem, hint string) {
	gv, err := kubeschema.ParseGroupVersion(text)
	switch {
	case err != nil:
		return fmt.Sprintf("%q has too many slashes", text), `write "group/version" or "version"`
	case gv.Version != "" && len(validation.IsDNS1035Label(gv.Version)) > 0,
		gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0:
		// It becomes a part of the path of a request.
		return fmt.Sprintf("%q is no version", text), `write "group/version" or "version", such as apps/v1`
	}
	return "", ""
}

func checkFinalizer(text string) (problem, hint string) {
	hint = "write DOMAIN/NAME, such as example.com/cleanup"
	switch problems := content.IsLabelKey(text); {
	case len(problems) > 0:
		return fmt.Sprintf("%q is no qualified name: %s", text, strings.Join(problems, " and ")), hint
	case !strings.Contains(text, "/"):
		return fmt.Sprintf("%q has no domain", text), hint
	}
	domain, _, _ := strings.Cut(text, "/")
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return fmt.Sprintf("%q is a finalizer of Kubernetes, which a run would remove", text),
				"use a domain of your own, such as example.com/cleanup"
		}
	}
	return "", ""
}

// checkConditionType accepts what may be the key of a label, too.
func checkConditionType(text string) (problem, hint string) {
	if len(content.IsLabelKey(text)) > 0 || len(text) > maxConditionType {
		return fmt.Sprintf("%q is not a type of a condition", text), `write a word such as "Ready", or with a prefix, such as "example.com/Ready"`
	}
	return "", ""
}

// checkNamespace rejects a name that would change the path of a request.
func checkNamespace(text string) (problem, hint string) {
	if problems := content.IsPathSegmentName(text); len(problems) > 0 {
		return fmt.Sprintf("is %.100q, which %s", text, strings.Join(problems, " and ")), "write names of namespaces"
	}
	return "", ""
}

func checkWebhookName(text string) (problem, hint string) {
	problems := validation.IsDNS1123Subdomain(text)
	if len(problems) == 0 && strings.Count(text, ".") < 2 {
		problems = []string{"it should have at least three parts"}
	}
	if len(problems) > 0 {
		return fmt.Sprintf("%q is not a webhook name: %s", text, problems[0]), `use a domain name such as "deny-latest.example.com"`
	}
	return "", ""
}

// checkQualifiedName rejects what the API server would reject for the webhooks of all hooks.
func checkQualifiedName(text string) (problem, hint string) {
	if problems := validation.IsQualifiedName(text); text != "" && len(problems) > 0 {
		return fmt.Sprintf("is %q: %s", text, problems[0]), "use letters, digits and hyphens"
	}
	return "", ""
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// secretHeaders are never passed to a hook.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

func checkHeader(text string) (problem, hint string) {
	switch {
	case !token.MatchString(text):
		return fmt.Sprintf("%q is not the name of a header", text), `write for instance "X-Signature"`
	case slices.Contains(secretHeaders, http.CanonicalHeaderKey(text)):
		return fmt.Sprintf("%q is never passed to a hook", text), "the client is in request.user"
	}
	return "", ""
}
