package hookset

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/script"
)

// digest identifies the content of the files that a hook consists of.
type digest [sha256.Size]byte

// digestOf reads the own files of a hook.
func digestOf(root, dir, name string) (sum digest) {
	h := sha256.New()
	for _, own := range ownFiles(root, dir, name) {
		_, _ = io.WriteString(h, own.Path+"\x00")
		if file, err := os.Open(filepath.Join(root, own.Path)); err == nil {
			_, _ = io.Copy(h, file)
			file.Close()
		}
	}
	h.Sum(sum[:0])
	return sum
}

// ContextsOf returns what a hook reads of its binding contexts. Its files are below root, which is the hooks directory dir or a copy of it.
func ContextsOf(root, dir, name string) script.Reading {
	files := ownFiles(root, dir, name)
	return script.Contexts(files[0], files[1:]...)
}

// ownFiles are the file of a hook, and the files below root that it sources or imports, and those that these do. Dir is the hooks
// directory, of which root may be a copy. Files that cannot be read, or are too large for a script, have no text.
func ownFiles(root, dir, name string) (files []script.Source) {
	seen := map[string]bool{name: true}
	for waiting := []string{name}; len(waiting) > 0; waiting = waiting[1:] {
		text, _ := readScript(filepath.Join(root, waiting[0]))
		file := script.Source{Path: waiting[0], Text: text}
		files = append(files, file)
		for _, end := range script.Sources(file) {
			if found := sourced(root, dir, file.Path, end); found != "" && !seen[found] {
				seen[found] = true
				waiting = append(waiting, found)
			}
		}
	}
	return files
}

// maxScript is the size above which a file is not checked: a script is never that large.
const maxScript = 1 << 20

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

// sourced returns the file below root that a script sources by a path of which the end is known: beside the script, or below root.
func sourced(root, dir, by, end string) string {
	end = strings.TrimPrefix(end, strings.TrimSuffix(dir, "/")+"/")
	for end = strings.TrimLeft(end, "/"); end != ""; _, end, _ = strings.Cut(end, "/") {
		for _, from := range []string{filepath.Dir(by), "."} {
			at := filepath.Join(from, end)
			if info, err := os.Stat(filepath.Join(root, at)); filepath.IsLocal(at) && err == nil && info.Mode().IsRegular() {
				return at
			}
		}
	}
	return ""
}
