package patch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// maxReported limits the failures in an error: a run may request a hundred thousand changes that all fail for one reason.
const maxReported = 50

// failures collects the errors of patches.
type failures struct {
	// report, if set, receives the patches.
	report func(*effect.Patch)

	mu    sync.Mutex
	first []failed
	more  int
}

// failed is a patch that failed, with its number in the file.
type failed struct {
	number int
	err    error
}

// add adds an error with the document and the object of its patch. It ignores nil.
func (f *failures) add(p *effect.Patch, err error) {
	if err == nil {
		return
	}
	if f.report != nil {
		f.report(p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.first) == maxReported {
		f.more++
		return
	}
	document := ""
	if p.Number > 0 {
		document = fmt.Sprintf(" (document %d)", p.Number)
	}
	f.first = append(f.first, failed{p.Number, fmt.Errorf("%s of %s%s: %w", p.Operation, describe(p), document, err)})
}

// join joins all errors, in the order of the file.
func (f *failures) join() error {
	slices.SortStableFunc(f.first, func(a, b failed) int { return cmp.Compare(a.number, b.number) })
	errs := make([]error, 0, len(f.first)+1)
	for _, one := range f.first {
		errs = append(errs, one.err)
	}
	if f.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more operations failed", f.more))
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
