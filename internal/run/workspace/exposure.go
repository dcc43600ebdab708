package workspace

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// warnOfExposure warns when other users can replace the private directory of the operator, and so return operations in the
// name of a hook. Outside of a Pod, whose volumes often have another owner, a foreign owner is an error.
func (d *Directories) warnOfExposure(flag, dir string) error {
	at, problem, hint := exposed(dir, os.Geteuid(), os.Getegid(), d.InPod)
	if problem == "" {
		return nil
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(at, &stat); err == nil && !d.InPod && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("the directory of %s is not safe: %s: %s", flag, problem, hint)
	}
	d.Log.Warn("Other users can replace the files of hooks in the directory of "+flag+": "+problem, slog.String("directory", at),
		slog.String("hint", hint))
	return nil
}

// exposed checks a directory and those above it, and returns the first one in which other users can replace files, the cause, and the next
// step. Modes of volumes in a Pod prove nothing: they are often open to all or to a group of their own, and only containers that mount the
// volume reach it.
func exposed(dir string, uid, gid int, inPod bool) (at, problem, hint string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	const elsewhere = ", or choose another directory"
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", "", "" // its first use reports why it cannot be used
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "", "", ""
		}
		open := info.Mode()&fs.ModeSticky == 0 && !inPod
		switch {
		case stat.Uid != 0 && int(stat.Uid) != uid:
			return dir, fmt.Sprintf("the user with the id %d owns %s and can replace files that the operator writes there", stat.Uid, dir),
				fmt.Sprintf("chown %d %s, if that user is not to be trusted%s", uid, dir, elsewhere)
		case open && info.Mode()&0o002 != 0:
			return dir, "all users can replace files that the operator writes in " + dir, "chmod o-w " + dir + ", or chmod +t " + dir + elsewhere
		case open && info.Mode()&0o020 != 0 && stat.Gid != 0 && int(stat.Gid) != gid:
			return dir, fmt.Sprintf("the group with the id %d can replace files that the operator writes in %s", stat.Gid, dir),
				"chmod g-w " + dir + ", or chmod +t " + dir + elsewhere
		case dir == filepath.Dir(dir):
			return "", "", ""
		}
	}
}
