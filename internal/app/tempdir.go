package app

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// exposure is why others can put something else in the place of what the operator makes in a directory.
type exposure struct {
	dir  string
	uid  uint32
	mode fs.FileMode
	// problem is the cause, hint the next step.
	problem, hint string
}

// warnOfExposure warns when others can replace the private directory that the operator makes in the temp directory:
// they could hand back operations in the name of a hook. It is no more than a warning, because volumes in containers
// often belong to another user.
func warnOfExposure(o *Options, flag, dir string) {
	inPod := slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, "KUBERNETES_SERVICE_HOST=") })
	e, exposed := exposed(dir, os.Geteuid(), os.Getegid(), inPod)
	if !exposed {
		return
	}
	o.Log.Warn("Other users can replace the files of hooks in the directory of "+flag+": "+e.problem, slog.String("directory", e.dir),
		slog.Uint64("owner", uint64(e.uid)), slog.String("mode", e.mode.String()), slog.String("hint", e.hint))
}

// exposed looks at a directory and at those above it. In a Pod only those containers have access that have been given the
// volume on purpose, and volumes are open to everybody or to a group of their own, so there modes say nothing.
func exposed(dir string, uid, gid int, inPod bool) (exposure, bool) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return exposure{}, false // its first use reports why it cannot be used
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return exposure{}, false
		}
		e := exposure{dir: dir, uid: stat.Uid, mode: info.Mode()}
		open := info.Mode()&fs.ModeSticky == 0 && !inPod
		const elsewhere = ", or choose another directory"
		switch {
		case stat.Uid != 0 && int(stat.Uid) != uid:
			e.problem = fmt.Sprintf("the user with the id %d owns %s and can replace files that the operator writes there", stat.Uid, dir)
			e.hint = fmt.Sprintf("chown %d %s, if that user is not to be trusted%s", uid, dir, elsewhere)
		case open && info.Mode()&0o002 != 0:
			e.problem = "everybody can replace files that the operator writes in " + dir
			e.hint = "chmod o-w " + dir + ", or chmod +t " + dir + elsewhere
		case open && info.Mode()&0o020 != 0 && stat.Gid != 0 && int(stat.Gid) != gid:
			e.problem = fmt.Sprintf("the group with the id %d can replace files that the operator writes in %s", stat.Gid, dir)
			e.hint = "chmod g-w " + dir + ", or chmod +t " + dir + elsewhere
		case dir == filepath.Dir(dir):
			return exposure{}, false
		default:
			continue
		}
		return e, true
	}
}
