package hookset

import (
	"io"
	"os"
	"path/filepath"

	"github.com/shell-operator/shell-operator/internal/script"
)

// maxScript is the size above which a file is not checked: a script is never that large.
const maxScript = 1 << 20

// ContextsOf returns what a hook reads of its binding contexts. Its files are below root, which is the hooks directory dir or a
// copy of it.
func ContextsOf(root, dir, name string) script.Reading {
	read := func(name string) ([]byte, bool) {
		text, err := readScript(filepath.Join(root, name))
		return text, err == nil
	}
	text, ok := read(name)
	if !ok {
		return script.Reading{Why: "it cannot be read, or is too large"}
	}
	return script.Contexts(script.Source{Path: name, Text: text}, script.Directory{Path: dir, Name: name, Read: read})
}

func readScript(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
		return nil, os.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(file, maxScript))
}
