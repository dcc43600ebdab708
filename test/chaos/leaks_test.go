package chaos

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
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
	// workers are those of the children that may stay.
	workers  int
	resident int // KiB
}

// slack is by how much an operator at rest may differ from another time at rest: connections come and go.
const slack = 12

func (w *world) usage() usage { return usageOf(w.op, w.tmp) }

// usageOf is what an operator with this temp directory holds.
func usageOf(op *testenv.Operator, tmp string) (u usage) {
	pid := strconv.Itoa(op.Pid())
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
	runs, _ := filepath.Glob(filepath.Join(tmp, "operator-*", "runs", "hook-*"))
	u.runs = len(runs)
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	if found := regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status); found != nil {
		u.resident, _ = strconv.Atoi(string(found[1]))
	}
	if found := regexp.MustCompile(`(?m)^go_goroutines (\d+)`).FindStringSubmatch(pageOf(op, "/metrics")); found != nil {
		u.goroutines, _ = strconv.Atoi(found[1])
	}
	return u
}

// page reads one of the operator's pages.
func (w *world) page(path string) string { return pageOf(w.op, path) }

func pageOf(op *testenv.Operator, path string) string {
	client := &http.Client{Timeout: test.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(op.Address() + path)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

// leaks compares what an operator at rest holds with what it held when it was at rest for the first time.
func (w *world) leaks() []string { return leaksOf(w.op, w.tmp, w.rest) }

func leaksOf(op *testenv.Operator, tmp string, rest usage) (wrong []string) {
	// The kernel removes ended processes from its tables with a delay, without a notification.
	for range 300 {
		u := usageOf(op, tmp)
		wrong = nil
		for _, c := range []struct {
			what      string
			now, most int
		}{
			{"goroutines", u.goroutines, rest.goroutines + slack},
			{"open files", u.files, rest.files + slack},
			{"child processes", u.children, rest.workers},
			{"directories of runs", u.runs, rest.runs},
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
func (w *world) left() []string { return leftIn(w.tmp) }

func leftIn(tmp string) (wrong []string) {
	found, _ := filepath.Glob(filepath.Join(tmp, "*"))
	for _, path := range found {
		wrong = append(wrong, "left behind: "+filepath.Base(path))
	}
	return wrong
}

// watched is an operator without a world. What it leaves behind fails the test.
type watched struct {
	*testenv.Operator
	t   *testing.T
	tmp string
}

func startWatched(t *testing.T, o testenv.OperatorOptions) *watched {
	t.Helper()
	o.TmpDir = filepath.Join(t.TempDir(), "tmp")
	t.Cleanup(func() { // when the operator has ended
		for _, text := range leftIn(o.TmpDir) {
			t.Error(text)
		}
	})
	return &watched{testenv.Start(t, o), t, o.TmpDir}
}

// mayHold notes what the operator holds now. At the end of the test it may not hold more.
func (w *watched) mayHold() {
	rest := usageOf(w.Operator, w.tmp)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			return
		}
		for _, text := range leaksOf(w.Operator, w.tmp, rest) {
			w.t.Error(text)
		}
	})
}
