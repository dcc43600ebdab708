package stream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/shell-operator/shell-operator/internal/kube"
)

func (s Scope) String() string {
	var b strings.Builder
	b.WriteString(s.Resource)
	if s.Group != "" {
		b.WriteString("." + s.Group)
	}
	b.WriteString(" (" + s.Version + ")")
	if s.Namespace != "" {
		b.WriteString(" in namespace " + s.Namespace)
	}
	for _, sel := range []struct{ name, text string }{{"labels", s.Labels}, {"fields", s.Fields}} {
		if sel.text != "" {
			fmt.Fprintf(&b, " with %s %s", sel.name, sel.text)
		}
	}
	return b.String()
}

// Selection names a scope in records that outlive versions of a hook and of a kind.
func (s Scope) Selection() string {
	return fmt.Sprintf("%s in %q with labels %q, fields %q", s.GroupResource(), s.Namespace, s.Labels, s.Fields)
}

// rule is the RBAC rule for the scope, and the kind of Role that it belongs to.
func (s Scope) rule() string {
	return kube.Grant(s.Namespace, kube.Rule{Group: s.Group, Resource: s.Resource, Verbs: []string{"get", "list", "watch"}})
}

// Trouble classifies errors by their remedy. A change of kind is logged, a repetition is not.
type Trouble string

const (
	NoTrouble    Trouble = ""
	Forbidden    Trouble = "forbidden"
	Unauthorized Trouble = "unauthorized"
	NotServed    Trouble = "not served"
	Unreachable  Trouble = "unreachable"
	OtherTrouble Trouble = "other"
	// Expired needs no remedy: the reflector lists again.
	Expired Trouble = "expired"
)

// MissingError reports that the API server does not serve a kind, that a permission is missing, or that requests no longer wait
// for a list.
type MissingError struct {
	Kind Trouble
	Text string
}

func (e *MissingError) Error() string { return e.Text }

// Missing reports whether a kind is missing.
func (e *MissingError) Missing() (kind bool) { return e.Kind == NotServed }

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

func TroubleOf(err error) Trouble {
	var unknown *kube.UnknownKindError
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case err == nil:
		return NoTrouble
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsUnauthorized(err):
		return Unauthorized
	case errors.As(err, &unknown), apierrors.IsNotFound(err):
		return NotServed
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return Expired
	case errors.As(err, &netErr), errors.As(err, &urlErr):
		return Unreachable
	}
	return OtherTrouble
}

// Explain adds the request and the remedy to an error of the API server; nil stays nil.
func Explain(s Scope, verb string, err error) error {
	switch TroubleOf(err) {
	case NoTrouble:
		return nil
	case Forbidden:
		return &MissingError{Forbidden, fmt.Sprintf("no permission to %s %s: %s", verb, s, s.rule())}
	case Unauthorized:
		return fmt.Errorf("the API server does not accept the operator's credentials for %s: check the kubeconfig or the "+
			"ServiceAccount token: %w", s, err)
	case NotServed:
		return &MissingError{NotServed,
			fmt.Sprintf("the API server does not serve %s: is its CRD missing? If another version is served, set apiVersion to it", s)}
	case Unreachable:
		return unreachableError{err}
	}
	return fmt.Errorf("cannot %s %s: %w", verb, s, err)
}

// Refused reports whether the API server will give the same answer to the same request.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsInvalid(err)
}
