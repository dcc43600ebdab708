package watch

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
)

func (s scope) String() string {
	var b strings.Builder
	b.WriteString(s.Resource)
	if s.Group != "" {
		b.WriteString("." + s.Group)
	}
	b.WriteString(" (" + s.Version + ")")
	if s.namespace != "" {
		b.WriteString(" in namespace " + s.namespace)
	}
	for _, sel := range []struct{ name, text string }{{"labels", s.labels}, {"fields", s.fields}} {
		if sel.text != "" {
			fmt.Fprintf(&b, " with %s %s", sel.name, sel.text)
		}
	}
	return b.String()
}

// selection names a scope in records that outlive versions of a hook and of a kind.
func (s scope) selection() string {
	return fmt.Sprintf("%s in %q with labels %q, fields %q", s.GroupResource(), s.namespace, s.labels, s.fields)
}

// rule is the RBAC rule for the scope, and the kind of Role that it belongs to.
func (s scope) rule() string {
	return kube.Grant(s.namespace, kube.Rule{Group: s.Group, Resource: s.Resource, Verbs: []string{"get", "list", "watch"}})
}

// troubleKind classifies errors by their remedy. A change of kind is logged, a repetition is not.
type troubleKind string

const (
	noTrouble    troubleKind = ""
	forbidden    troubleKind = "forbidden"
	unauthorized troubleKind = "unauthorized"
	notServed    troubleKind = "not served"
	unreachable  troubleKind = "unreachable"
	otherTrouble troubleKind = "other"
	// expired needs no remedy: the reflector lists again.
	expired troubleKind = "expired"
)

// missingError reports that the API server does not serve a kind, that a permission is missing, or that requests have waited for
// longestRefusal.
type missingError struct {
	kind troubleKind
	text string
}

func (e *missingError) Error() string { return e.text }

// Missing reports whether a kind is missing.
func (e *missingError) Missing() (kind bool) { return e.kind == notServed }

// unreachableError is equal for all requests, so that one cause is shown once: it has the address in place of the path.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

func (e unreachableError) Error() string {
	address, cause := "", e.error
	if u, ok := errors.AsType[*url.Error](e.error); ok {
		if at, err := url.Parse(u.URL); err == nil {
			address = " " + at.Scheme + "://" + at.Host
		}
	}
	for next := cause; next != nil; next = errors.Unwrap(next) {
		cause = next
	}
	return fmt.Sprintf("the API server%s cannot be reached: %v", address, cause)
}

func kindOfTrouble(err error) troubleKind {
	var unknown *kube.UnknownKindError
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return noTrouble
	case apierrors.IsForbidden(err):
		return forbidden
	case apierrors.IsUnauthorized(err):
		return unauthorized
	case errors.As(err, &unknown), apierrors.IsNotFound(err):
		return notServed
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return expired
	case errors.As(err, &netErr), errors.As(err, &urlErr):
		return unreachable
	}
	return otherTrouble
}

// explain adds the request and the remedy to an error of the API server; nil stays nil.
func explain(s scope, verb string, err error) error {
	switch kindOfTrouble(err) {
	case noTrouble:
		return nil
	case forbidden:
		return &missingError{forbidden, fmt.Sprintf("no permission to %s %s: %s", verb, s, s.rule())}
	case unauthorized:
		return fmt.Errorf("the API server does not accept the operator's credentials for %s: check the kubeconfig or the "+
			"ServiceAccount token: %w", s, err)
	case notServed:
		return &missingError{notServed,
			fmt.Sprintf("the API server does not serve %s: is its CRD missing? If another version is served, set apiVersion to it", s)}
	case unreachable:
		return unreachableError{err}
	}
	return fmt.Errorf("cannot %s %s: %w", verb, s, err)
}
