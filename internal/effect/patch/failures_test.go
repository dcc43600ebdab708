package patch

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// A hundred thousand failures make an error that can be read and logged.
func TestManyFailures(t *testing.T) {
	var f failures
	var working sync.WaitGroup
	for worker := range 4 {
		working.Go(func() {
			for i := range 25_000 {
				f.add(&effect.Patch{Operation: effect.Create, Kind: "Pod", Name: "a", Number: 4*i + worker + 1}, errors.New(strings.Repeat("x", 100)))
			}
		})
	}
	working.Wait()
	text := f.join().Error()
	if !strings.HasSuffix(text, "\nand 99950 more operations failed") || len(text) > 10_000 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestFailuresInOrder(t *testing.T) {
	var f failures
	for _, number := range []int{3, 1, 2} {
		f.add(&effect.Patch{Operation: effect.Delete, Kind: "Pod", Namespace: "n", Name: fmt.Sprint("p", number), Number: number},
			errors.New("no"))
	}
	f.add(&effect.Patch{}, nil)
	want := "Delete of Pod/n/p1 (document 1): no\nDelete of Pod/n/p2 (document 2): no\nDelete of Pod/n/p3 (document 3): no"
	if got := f.join().Error(); got != want {
		t.Errorf("got %s", got)
	}
	if err := (&failures{}).join(); err != nil {
		t.Errorf("no failures are %v", err)
	}
}
