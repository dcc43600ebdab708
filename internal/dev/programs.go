package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// lookUp returns the path of a program by a variable PATH; empty without one.
func lookUp(name, variable string) string {
	for _, dir := range filepath.SplitList(variable) {
		if path := filepath.Join(dir, name); testfile.IsExecutable(path) {
			return path
		}
	}
	return ""
}

// check runs a program that checks a file, with the environment of hooks. It is a lint.Check.
func (l *linter) check(ctx context.Context, program string, args ...string) (stderr []byte, found bool, err error) {
	path := lookUp(program, process.Variable(l.opts.Env, "PATH"))
	if path == "" {
		return nil, false, nil
	}
	var out strings.Builder
	_, err = l.discover.Executor.Execute(ctx, process.Invocation{
		Hook: program, Path: path, Args: args, Dir: "/", Env: l.opts.Env,
		Stdout: func([]byte) {}, Stderr: func(line []byte) { out.Write(line); out.WriteByte('\n') },
	})
	return []byte(out.String()), true, err
}

// elsewhere is the hint for a script that sources a file of the hooks directory by the path that it has in an image only, or empty.
func elsewhere(l lint.Libraries, hook, dir string) string {
	there := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	file, mount := l.Missing(hook, there, func(path string) bool { return there(filepath.Join(dir, path)) })
	if file == "" {
		return ""
	}
	return fmt.Sprintf(`%s does not exist here: check the hooks in their image, make their directory available as %s (ln -s %s %s), `+
		`or source the file by a path relative to the script`, file, mount, dir, mount)
}
