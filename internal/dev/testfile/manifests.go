package testfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Manifest is an object and the file that it is from.
type Manifest struct {
	Path string
	Text []byte
}

// ReadManifests reads files, and all manifests below directories.
func ReadManifests(paths []string) (all []Manifest, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fmt.Errorf("cannot read the objects: %w", err)
			case d.IsDir() && file != path && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case d.IsDir(), file != path && !IsManifest(file):
				return nil
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("cannot read the objects: %w", err)
			}
			objects, err := Manifests(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, o := range objects {
				all = append(all, Manifest{file, o})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// IsManifest reports whether a file has the extension of manifests.
func IsManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}
