package patch

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// maxReported limits the failures in an error: a run may request a hundred thousand changes that all fail for one reason. maxWarnings
// limits the warnings of one patch that are kept and logged: a Sync may have thousands of objects.
const maxReported, maxWarnings = 50, 10

// Progress has the outcome of each patch of a call of Apply.
type Progress struct {
	mu       sync.Mutex
	failed   map[*effect.Patch]bool
	warnings map[*effect.Patch][]string
	first    []failure
	more     int
}

// failure is the error of a patch, with its number in the file.
type failure struct {
	number int
	err    error
}

// Failed reports whether a patch has failed.
func (r *Progress) Failed(p *effect.Patch) bool { return r.failed[p] }

// Warnings returns the warnings of the API server about a patch.
func (r *Progress) Warnings(p *effect.Patch) []string { return r.warnings[p] }

// add adds an error with the document and the object of its patch. It ignores nil.
func (r *Progress) add(p *effect.Patch, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[*effect.Patch]bool{}
	}
	r.failed[p] = true
	if len(r.first) == maxReported {
		r.more++
		return
	}
	document := ""
	if p.Number > 0 {
		document = fmt.Sprintf(" (document %d)", p.Number)
	}
	r.first = append(r.first, failure{p.Number, fmt.Errorf("%s of %s%s: %w", p.Operation, describe(p), document, err)})
}

// warn keeps a warning. It returns false for one that is there already, as of the retry of a request, and for too many.
func (r *Progress) warn(p *effect.Patch, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.warnings[p]) == maxWarnings || slices.Contains(r.warnings[p], text) {
		return false
	}
	if r.warnings == nil {
		r.warnings = map[*effect.Patch][]string{}
	}
	r.warnings[p] = append(r.warnings[p], text)
	return true
}

// LogWarning logs a warning of the API server. The log has the fields of the run, or the hook.
func LogWarning(log *slog.Logger, about, text string) {
	log.Warn("The API server warns about a change", "object", about, "warning", text)
}

// err joins all errors, in the order of the file.
func (r *Progress) err() error {
	slices.SortStableFunc(r.first, func(a, b failure) int { return cmp.Compare(a.number, b.number) })
	errs := make([]error, 0, len(r.first)+1)
	for _, one := range r.first {
		errs = append(errs, one.err)
	}
	if r.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more operations failed", r.more))
	}
	return errors.Join(errs...)
}

// describe returns the object of a patch in the form apiVersion/kind/namespace/name.
func describe(p *effect.Patch) string {
	if p.Set != nil {
		text := fmt.Sprintf("set %q", p.Set.Name)
		if o := p.Set.Owner; o != nil {
			text += " of " + describe(&effect.Patch{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name})
		}
		return text
	}
	text := p.Kind
	if p.APIVersion != "" {
		text = p.APIVersion + "/" + text
	}
	if p.Namespace != "" {
		text += "/" + p.Namespace
	}
	return text + "/" + p.Name
}
