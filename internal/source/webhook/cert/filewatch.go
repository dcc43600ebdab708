package cert

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/shell-operator/shell-operator/internal/filewatch"
)

// followFiles calls changed whenever files may have changed, until ctx ends.
func followFiles(ctx context.Context, log *slog.Logger, paths []string, changed func()) error {
	return filewatch.Follow(ctx, filewatch.Options{
		Directories: func() map[string]bool { return directories(paths) },
		Changed:     func() time.Duration { changed(); return 0 },
		Degraded: func(err error) {
			log.Warn("Changes of webhook certificate files are noticed within a minute only", "error", err.Error())
		},
	})
}

// directories returns the directories of the files, before and after following symbolic links.
func directories(paths []string) map[string]bool {
	dirs := map[string]bool{}
	for _, path := range paths {
		dirs[filepath.Dir(path)] = true
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs[filepath.Dir(real)] = true
		}
	}
	return dirs
}
