package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Told keeps what operators of tests have told, each line once, in files of the directory that TESTTOLD names. When all tests
// have ended, a test of docs looks there for what pages quote. Without the variable it does nothing.
//
// Lines are given in any form; what differs from one to the next, such as times, makes them different lines only where it does
// not begin them.
func Told(lines string) {
	dir := os.Getenv("TESTTOLD")
	if dir == "" {
		return
	}
	told.Lock()
	defer told.Unlock()
	if told.file == nil {
		file, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		told.file, told.seen = file, map[string]bool{}
	}
	out := bufio.NewWriter(told.file)
	for line := range strings.Lines(lines) {
		if !told.seen[line] {
			told.seen[line] = true
			_, _ = out.WriteString(line)
		}
	}
	if err := out.Flush(); err != nil {
		panic(err)
	}
}

var told struct {
	sync.Mutex
	file *os.File
	seen map[string]bool
}

// LogHandler is slog.NewTextHandler for tests: what a package of the operator logs there is told, too.
func LogHandler(w io.Writer, o *slog.HandlerOptions) slog.Handler {
	return slog.NewTextHandler(io.MultiWriter(w, teller{}), o)
}

type teller struct{}

func (teller) Write(line []byte) (int, error) {
	if _, message, ok := bytes.Cut(line, []byte("msg=")); ok {
		Told(strings.ReplaceAll(string(message), `\"`, `"`))
	}
	return len(line), nil
}
