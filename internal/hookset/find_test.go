package hookset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestFind makes the trees in testdata/find.txtar and compares what is found in them with the files NAME.want:
// the hooks in order, then the log. A tree has a line for each entry:
//
//	a/b.sh          a file that everybody may execute
//	a/b.sh 644      a file with another mode
//	a/b.sh -> c.sh  a link
//	a/              a directory
//	root DIR        look for hooks in DIR, which may be a link, and not in the directory of the tree
func TestFind(t *testing.T) {
	golden.Wants(t, "testdata/find.txtar", func(t *testing.T, f txtar.File) string { return findIn(t, makeTree(t, string(f.Data))) })
}

func findIn(t *testing.T, dir string) string {
	log, logged := newLog()
	root, files, err := find(dir, dir, false, log)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		if f.Path != filepath.Join(root, f.Name) {
			t.Errorf("hook %s has the path %s", f.Name, f.Path)
		}
		fmt.Fprintln(&b, "hook", f.Name)
	}
	return b.String() + strings.ReplaceAll(logged.String(), root+string(filepath.Separator), "")
}

// makeTree returns the hooks directory of a tree.
func makeTree(t *testing.T, tree string) (root string) {
	t.Helper()
	dir := t.TempDir()
	root = dir
	for line := range strings.Lines(tree) {
		words := strings.Fields(line)
		path := filepath.Join(dir, words[0])
		mode := fs.FileMode(0o755)
		var err error
		switch {
		case words[0] == "root":
			root = filepath.Join(dir, words[1])
			continue
		case strings.HasSuffix(words[0], "/"):
			err = os.MkdirAll(path, 0o755)
		case len(words) == 3:
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(words[2], path))
		case len(words) == 2:
			var bits uint64
			bits, err = strconv.ParseUint(words[1], 8, 32)
			mode = fs.FileMode(bits)
			fallthrough
		default:
			// The mode is set afterwards, because the umask limits WriteFile.
			err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755), os.Chmod(path, mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFindFails(t *testing.T) {
	log, _ := newLog()
	root := makeTree(t, "a.sh\nclosed/b.sh\n")
	if _, _, err := find(filepath.Join(root, "nosuch"), "", false, log); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may read every directory")
	}
	closed := filepath.Join(root, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	for _, dir := range []string{root, closed, filepath.Join(closed, "below")} {
		if _, _, err := find(dir, dir, false, log); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// recorder is a handler that writes a line for each record, "LEVEL message: value, value".
type recorder struct {
	*lines
	attrs []slog.Attr
}

func newLog() (*slog.Logger, *lines) {
	l := &lines{}
	return slog.New(recorder{lines: l}), l
}

func (r recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r recorder) WithGroup(string) slog.Handler            { panic("no groups") }

func (r recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return recorder{r.lines, slices.Concat(r.attrs, attrs)}
}

func (r recorder) Handle(_ context.Context, rec slog.Record) error {
	attrs := slices.Clone(r.attrs)
	rec.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	var values []string
	for _, a := range attrs {
		if a.Key != "phase" {
			values = append(values, a.Value.String())
		}
	}
	r.add(fmt.Sprintf("%s %s: %s\n", rec.Level, rec.Message, strings.Join(values, ", ")))
	return nil
}

// lines collects text from several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
