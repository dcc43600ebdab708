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

// digestOf reads the file of a hook, and the files below root that it sources or imports, and those that these do. Dir is the hooks directory,
// of which root may be a copy.
func digestOf(root, dir, name string) (sum digest) {
	h := sha256.New()
	seen := map[string]bool{name: true}
	for waiting := []string{name}; len(waiting) > 0; waiting = waiting[1:] {
		at := waiting[0]
		_, _ = io.WriteString(h, at+"\x00")
		file, err := os.Open(filepath.Join(root, at))
		if err != nil {
			continue
		}
		_, _ = io.Copy(h, file)
		file.Close()
		text, err := readScript(filepath.Join(root, at))
		if err != nil {
			continue
		}
		for _, end := range script.Sources(script.Source{Path: at, Text: text}) {
			if found := sourced(root, dir, at, end); found != "" && !seen[found] {
				seen[found] = true
				waiting = append(waiting, found)
			}
		}
	}
	h.Sum(sum[:0])
	return sum
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
