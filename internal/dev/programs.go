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

// programs are what an environment's PATH leads to.
type programs struct {
	env      []string
	executor *process.Executor
}

// find returns the path of a program: of one without slashes that of the first file in PATH which can be executed.
func (p programs) find(name string) (string, bool) {
	if strings.Contains(name, "/") {
		return name, testfile.IsExecutable(name)
	}
	for _, dir := range filepath.SplitList(process.Variable(p.env, "PATH")) {
		if path := filepath.Join(dir, name); testfile.IsExecutable(path) {
			return path, true
		}
	}
	return "", false
}

// check runs a program that checks a file. It is a lint.Check.
func (p programs) check(ctx context.Context, program string, args ...string) (stderr []byte, found bool, err error) {
	path, found := p.find(program)
	if !found {
		return nil, false, nil
	}
	var out strings.Builder
	_, err = p.executor.Execute(ctx, process.Invocation{
		Hook: program, Path: path, Args: args, Dir: "/", Env: p.env,
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
