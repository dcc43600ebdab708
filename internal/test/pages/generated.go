package pages

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// Part is a part of a page, between two lines that are comments there.
type Part struct {
	// Page is the file, Name what the part is called, Package the tests that write it: "./deploy".
	Page, Name, Package string
}

// Check fails the test if the part is not want. With -update it writes it instead.
func (p Part) Check(t testing.TB, want string) {
	t.Helper()
	page, err := os.ReadFile(p.Page)
	if err != nil {
		t.Fatal(err)
	}
	command := "go test " + p.Package + " -run TestReference -update"
	begin, end := fmt.Sprintf("<!-- %s: written by %s -->\n", p.Name, command), fmt.Sprintf("<!-- end of %s -->\n", p.Name)
	before, rest, begins := strings.Cut(string(page), begin)
	found, after, ends := strings.Cut(rest, end)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no place for the %s: it needs the lines\n%s%s", p.Page, p.Name, begin, end)
	case found == want:
	case !golden.Update():
		t.Fatalf("the %s in %s are not those of the code: run %s\n--- found:\n%s--- should be:\n%s", p.Name, p.Page, command, found, want)
	default:
		if err := os.WriteFile(p.Page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
