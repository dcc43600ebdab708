package testfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
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
	files, err := below(paths, IsManifest)
	if err != nil {
		return nil, fmt.Errorf("cannot read the objects: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cannot read the objects: %w", err)
		}
		objects, err := Manifests(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range objects {
			all = append(all, Manifest{file, o})
		}
	}
	return all, nil
}

// IsManifest reports whether a file has the extension of manifests.
func IsManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// Head is the identity of an object.
type Head struct {
	APIVersion, Kind string
	Metadata         struct {
		Namespace, Name   string
		UID               string
		Labels            map[string]string
		Finalizers        []string
		DeletionTimestamp string
	}
}

// HeadOf parses an object as far as its identity.
func HeadOf(text []byte) (h Head, err error) {
	err = json.Unmarshal(text, &h)
	return h, err
}

// Ref is the reference of the object.
func (h *Head) Ref() string { return path.Join(h.Kind, h.Metadata.Namespace, h.Metadata.Name) }
