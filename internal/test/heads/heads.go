// Package heads checks the heads of context files in tests.
package heads

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// shellLoads prints what the shell library reads of a context file, by its heads and with jq.
const shellLoads = `source "$1"
show() { printf '%s\0' "${__shell_lib_words[@]/#/word }" "${__shell_lib_leaves[@]/#/leaf }" "${__shell_lib_elements[@]/#/element }" ---; }
context::_load_heads
show
context::_load_with_jq
show
`

// plainValue is a value that the heads have whatever it is, without a path that JSON can write in several ways.
var plainValue = regexp.MustCompile(`^([^\\\x7f]*)\x1e("[^"\\\x00-\x1f\x7f-\x{10ffff}]{0,255}"|0|-?[1-9]\d{0,14}|true|false|null)$`)

// Check compares the heads of a context file with what the shell library reads of it with jq.
func Check(t testing.TB, file []byte) {
	t.Helper()
	text := wire.HeadsOf(file)
	if text == nil {
		t.Errorf("there are no heads of\n%s", file)
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "context.json")
	// In this order: heads that are older than the contexts are not read.
	if err := errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(filepath.Join(dir, "context.heads"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", shellLoads, "bash", filepath.Join(test.Root(), "sdk", "shell", "shell_lib.sh"))
	cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+path, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, file, text)
	}
	both := bytes.Split(out, []byte("---\x00"))
	fast, slow := loadedOf(both[0]), loadedOf(both[1])
	if !reflect.DeepEqual(fast.words, slow.words) {
		t.Errorf("of\n%s\nthe words are %q, not %q", file, fast.words, slow.words)
	}
	if !reflect.DeepEqual(fast.elements, slow.elements) {
		t.Errorf("of\n%s\nthe elements are\n%v, not\n%v", file, fast.elements, slow.elements)
	}
	for i := range min(len(fast.leaves), len(slow.leaves)) {
		compareLeaves(t, fast.leaves[i], slow.leaves[i])
	}
}

// compareLeaves: each leaf of the heads is one of jq, and each plain one of jq is in the heads. Both have the first 200, in their own
// order.
func compareLeaves(t testing.TB, fast, slow map[string]bool) {
	t.Helper()
	for leaf := range fast {
		if !slow[leaf] && len(slow) < 200 && !strings.Contains(leaf, `"managedFields"`) {
			t.Errorf("%q is in the heads, and not what jq prints", leaf)
		}
	}
	for leaf := range slow {
		if plainValue.MatchString(leaf) && !fast[leaf] && len(fast) < 200 && !strings.Contains(leaf, `"managedFields"`) &&
			!strings.HasPrefix(leaf, `,"deleting"`) {
			t.Errorf("%q is not in the heads", leaf)
		}
	}
}

// loaded is what the library has read, one of each for each context.
type loaded struct {
	words    []string
	leaves   []map[string]bool
	elements []any
}

func loadedOf(printed []byte) (l loaded) {
	for item := range strings.SplitSeq(string(printed), "\x00") {
		kind, text, _ := strings.Cut(item, " ")
		switch kind {
		case "word":
			l.words = append(l.words, text)
		case "leaf":
			leaves := map[string]bool{}
			for leaf := range strings.SplitSeq(text, "\x1f") {
				leaves[leaf] = true
			}
			delete(leaves, "")
			l.leaves = append(l.leaves, leaves)
		case "element":
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				value = err.Error()
			}
			l.elements = append(l.elements, value)
		}
	}
	return l
}
