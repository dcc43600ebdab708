package workspace

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// exposure is a directory in which other users can replace files.
type exposure struct {
	dir  string
	uid  uint32
	mode fs.FileMode
	// problem is the cause, hint the next step.
	problem, hint string
}

// warnOfExposure warns when other users can replace the private directory of the operator, and so return operations in the
// name of a hook. It is only a warning, because volumes in containers often have another owner.
func (d *Directories) warnOfExposure(flag, dir string) {
	e, exposed := exposed(dir, os.Geteuid(), os.Getegid(), d.InPod)
	if !exposed {
		return
	}
	d.Log.Warn("Other users can replace the files of hooks in the directory of "+flag+": "+e.problem, slog.String("directory", e.dir),
		slog.Uint64("owner", uint64(e.uid)), slog.String("mode", e.mode.String()), slog.String("hint", e.hint))
}

// exposed checks a directory and those above it. Modes of volumes in a Pod prove nothing: they are often open to all or to a
// group of their own, and only containers that mount the volume reach it.
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
			e.problem = "all users can replace files that the operator writes in " + dir
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
