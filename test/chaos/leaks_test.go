package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// idle waits until the last runs of all hooks have succeeded on the operator's side too.
func (w *world) idle() {
	w.t.Helper()
	w.op.Until("the end of all runs", func(records []testenv.Record) bool {
		last := map[string]string{}
		for _, r := range records {
			switch msg := r.Fields["msg"]; msg {
			case "Execute hook", "Hook executed successfully", "Hook failed. Will retry after delay.":
				last[r.Fields["hook"]] = msg
			}
		}
		for _, name := range w.hooks() {
			if last[name] != "Hook executed successfully" {
				return false
			}
		}
		return true
	})
}

// usage is what an operator holds.
type usage struct {
	goroutines, files, children, runs int
	// workers are the children that may stay.
	workers int
}

// slack is by how much an operator at rest may differ from another time at rest: connections come and go.
const slack = 12

func (w *world) usage() (u usage) {
	pid := strconv.Itoa(w.op.Pid())
	open, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	u.files = len(open)
	processes, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range processes {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == pid {
			u.children++
		}
	}
	runs, _ := filepath.Glob(filepath.Join(w.tmp, "operator-*", "runs", "hook-*"))
	u.runs = len(runs)
	if found := regexp.MustCompile(`(?m)^go_goroutines (\d+)`).FindStringSubmatch(w.op.Page("/metrics")); found != nil {
		u.goroutines, _ = strconv.Atoi(found[1])
	}
	return u
}

// leaks compares what an operator at rest holds with what it held when it was at rest for the first time.
func (w *world) leaks() (wrong []string) {
	// The kernel removes ended processes from its tables with a delay, without a notification.
	for range 300 {
		u := w.usage()
		wrong = nil
		for _, c := range []struct {
			what      string
			now, most int
		}{
			{"goroutines", u.goroutines, w.rest.goroutines + slack},
			{"open files", u.files, w.rest.files + slack},
			{"child processes", u.children, w.rest.workers},
			{"directories of runs", u.runs, w.rest.runs},
		} {
			if c.now > c.most {
				wrong = append(wrong, fmt.Sprintf("leak: %d %s, at most %d are expected", c.now, c.what, c.most))
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return wrong
}

// left are files that an operator which has ended left behind.
func (w *world) left() (wrong []string) {
	found, _ := filepath.Glob(filepath.Join(w.tmp, "*"))
	for _, path := range found {
		wrong = append(wrong, "left behind: "+filepath.Base(path))
	}
	return wrong
}
