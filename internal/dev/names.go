package dev

import "github.com/shell-operator/shell-operator/internal/hookset"

// HookFiles returns the names of the files below a directory that the operator would call as hooks; none if it cannot be read.
func HookFiles(dir string) (names []string) {
	_, entries, err := hookset.Entries(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Skipped == nil {
			names = append(names, e.Name)
		}
	}
	return names
}
