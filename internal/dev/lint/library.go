package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/script"
)

// Libraries are the files that shell scripts source.
type Libraries struct{ sourced []sourced }

// sourced is a file that a script sources.
type sourced struct {
	// by is the path of the script for findings, shell the shell that runs it, end the end of the path of the file.
	by, shell, end string
}

// FindLibraries collects what scripts source.
func FindLibraries(scripts []script.Source) (l Libraries) {
	for _, s := range scripts {
		if shell, _, isShell := s.Shell(); isShell {
			for _, end := range script.Sources(s) {
				l.sourced = append(l.sourced, sourced{s.Path, shell, end})
			}
		}
	}
	return l
}

// Of returns the scripts that source a file, by its path below the hooks directory, and the strictest of their shells.
func (l Libraries) Of(name string) (by []string, shell string) {
	for _, s := range l.sourced {
		file, end := "/"+name, path.Clean("/"+s.end)
		if !strings.HasSuffix(file, end) && !strings.HasSuffix(end, file) {
			continue
		}
		if !slices.Contains(by, s.by) {
			by = append(by, s.by)
		}
		if shell == "" || script.IsPosix(s.shell) {
			shell = s.shell
		}
	}
	return by, shell
}

// Missing returns an absolute path that a script sources and that does not exist here, although its end exists below the hooks
// directory: in the image the directory is at mount.
func (l Libraries) Missing(hook string, here, below func(path string) bool) (file, mount string) {
	for _, s := range l.sourced {
		if s.by != hook || !strings.HasPrefix(s.end, "/") || here(s.end) {
			continue
		}
		for at := strings.Index(s.end[1:], "/") + 1; at > 0; {
			if below(s.end[at+1:]) {
				return s.end, s.end[:at]
			}
			next := strings.Index(s.end[at+1:], "/")
			if next < 0 {
				break
			}
			at += next + 1
		}
	}
	return "", ""
}
