package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/pages"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// shown PAGE NAME: wait until there was a run with the contexts that the page shows, in a block with the mark "context: NAME".
// Such a run may have more of them in front and behind. The test's namespace is called shop on pages.
func shownCommand(w *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: shown PAGE NAME")
	}
	page, err := os.ReadFile(filepath.Join(test.Root(), args[0]))
	ts.Check(err)
	var want []json.RawMessage
	for _, b := range pages.Blocks(string(page)) {
		if b.Mark == "context: "+args[1] {
			ts.Check(json.Unmarshal([]byte(b.Text), &want))
		}
	}
	if len(want) == 0 {
		ts.Fatalf("%s shows no context %s", args[0], args[1])
	}
	problems := map[string]bool{}
	err = w.Operator.TryUntil(test.Patience, func(records []testenv.Record) bool {
		for _, r := range records {
			if text, ok := strings.CutPrefix(r.Fields["msg"], "run "); ok && r.Fields["output"] == "stdout" {
				problem := neighbours(want, strings.ReplaceAll(text, `"`+w.Namespace+`"`, `"shop"`))
				if problem == nil {
					return true
				}
				problems[problem.Error()] = true
			}
		}
		return false
	})
	if err != nil {
		ts.Fatalf("%s, %s: %v: no run had these contexts:\n%s\n%s", args[0], args[1], err, strings.Join(slices.Sorted(maps.Keys(problems)), "\n"),
			w.Operator.Log())
	}
}

// neighbours looks for contexts in a row.
func neighbours(want []json.RawMessage, text string) (problem error) {
	var got []json.RawMessage
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return err
	}
	problem = fmt.Errorf("only %d contexts", len(got))
	for first := 0; first+len(want) <= len(got); first++ {
		problem = nil
		for i, w := range want {
			if problem = pages.Same(string(w), string(got[first+i])); problem != nil {
				break
			}
		}
		if problem == nil {
			return nil
		}
	}
	return problem
}

// request METHOD PATH RESULT [TYPE BODY]: ask the hooks by HTTP. RESULT is the expected status, or after which time the client hangs up.
// Stdout has the headers and the body of the response.
func requestCommand(w *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 && len(args) != 5 {
		ts.Fatalf("usage: request METHOD PATH RESULT [TYPE BODY]")
	}
	address := w.Operator.UntilLog("HTTP hooks are served").Fields["address"]
	req, err := http.NewRequest(args[0], "http://"+address+args[1], nil)
	ts.Check(err)
	req.Header.Set("User-Agent", "")
	if len(args) == 5 {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(args[4])), int64(len(args[4]))
		req.Header.Set("Content-Type", args[3])
	}
	patience, hangsUp := time.ParseDuration(args[2])
	if hangsUp != nil {
		patience = test.Patience
	}
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if hangsUp == nil && err != nil {
		return
	}
	ts.Check(err)
	defer res.Body.Close()
	ts.Check(res.Header.Write(ts.Stdout()))
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
	if strconv.Itoa(res.StatusCode) != args[2] {
		ts.Fatalf("%s %s: %s", args[0], args[1], res.Status)
	}
}
