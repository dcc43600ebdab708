package patch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// maxReported is how many failures are told of: a run may ask for a hundred thousand changes, and all of them fail for the
// same reason.
const maxReported = 50

// failures collects what went wrong.
type failures struct {
	mu    sync.Mutex
	first []failed
	more  int
}

// failed is a patch that failed, with its place in the file.
type failed struct {
	number int
	err    error
}

// add takes an error with the place and the object. Nil is none.
func (f *failures) add(p *effect.Patch, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.first) == maxReported {
		f.more++
		return
	}
	f.first = append(f.first, failed{p.Number, fmt.Errorf("%s of %s (document %d): %w", p.Operation, describe(p), p.Number, err)})
}

// join makes one error of all, in the order of the file.
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

// describe names the object of a patch.
func describe(p *effect.Patch) string {
	text := p.Kind
	if p.APIVersion != "" {
		text = p.APIVersion + "/" + text
	}
	if p.Namespace != "" {
		text += "/" + p.Namespace
	}
	return text + "/" + p.Name
}
