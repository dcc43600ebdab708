package debug

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestLists: the rows of each list, and the objects behind them, in testdata/lists.golden.
func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
		o := operate(busyOperator())
		record(o.history, "17", "big.py", history.Failed, "the disk\nis full")
		record(o.history, "18", "tidy.sh", history.Allowed, "")
		api := o.api()
		var b strings.Builder
		for _, topic := range *api.topics.Load() {
			for _, r := range topic.Routes {
				if r.Command == nil || r.Command.List == nil {
					continue
				}
				path := strings.Replace(strings.Replace(r.Path, "/sets/*", "/sets/web", 1), "*", "orders", 1)
				answer := ask(api, "GET", path+".json", nil).Body.Bytes()
				fmt.Fprintf(&b, "GET %s\n\n%s\n", path, rowsText(t, r.Command.List, answer, true))
				if bytes.HasPrefix(answer, []byte("[")) {
					var objects []json.RawMessage
					if err := json.Unmarshal(answer, &objects); err != nil {
						t.Fatal(err)
					}
					for _, object := range objects {
						fmt.Fprintf(&b, "%s\n", object)
					}
				} else {
					fmt.Fprintf(&b, "%s\n", answer)
				}
				b.WriteString("\n")
			}
		}
		golden.Compare(t, "testdata/lists.golden", b.String())
	})
}

// rowsText are the rows of an answer, and the line below them.
func rowsText(t *testing.T, l *List, answer []byte, wide bool) string {
	t.Helper()
	table, err := l.Table(answer)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, line := range table.Texts(wide, time.Now()) {
		b.WriteString(strings.Join(line, " | ") + "\n")
	}
	return b.String() + table.Rest
}
