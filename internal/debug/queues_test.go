package debug

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// The formats are those that scripts have known for years.
func TestQueueDumps(t *testing.T) {
	all := theQueues()
	idle := []Queue{{Name: "main"}, {Name: "spare"}}
	var dumps strings.Builder
	for _, test := range []struct {
		name   string
		dump   interface{ text() string }
		format format
	}{
		{"text", dumpAll(all, true), textFormat},
		{"json", dumpAll([]Queue{fifo("main", "run first task", Lane{}, all[0].FirstTasks[0]), {Name: "spare"}}, true), jsonFormat},
		{"yaml has the keys of json", dumpAll(all[1:], false), yamlFormat},
		{"empty ones are not asked for", dumpAll(idle, false), jsonFormat},
		{"nothing to do", dumpAll(idle, true), textFormat},
		{"main alone and idle is not listed as empty", dumpAll(idle[:1], true), textFormat},
		{"main alone, json", dumpAll(idle[:1], true), jsonFormat},
		{"no queues", dumpAll(nil, true), textFormat},
		{"the main queue", dumpOf(all[0]), textFormat},
		{"the main queue, idle", dumpOf(idle[0]), jsonFormat},
		{"errors with many lines stay on one", dumpOf(fifo("q", "", Lane{Failures: 1, Error: "a\nb\r\nc"}, Task{About: "x"})),
			textFormat},
		{"a lane that collects events", dumpOf(Queue{Name: "q", Keyed: true, Tasks: 1, Lanes: 1, FirstLanes: []Lane{
			{Key: "a", Tasks: 1, Phase: queue.Collecting, Until: time.Date(2026, 11, 29, 7, 0, 1, 250e6, time.UTC), Task: Task{About: "x"}}}}),
			textFormat},
	} {
		w := &bodyRecorder{}
		if err := (answer{value: test.dump, text: test.dump.text()}).write(w, test.format); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&dumps, "# %s\n%s\n", test.name, w)
	}
	golden.Compare(t, "testdata/queues.golden", dumps.String())
}

// bodyRecorder is a response without status.
type bodyRecorder struct {
	bytes.Buffer
	header http.Header
}

func (r *bodyRecorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *bodyRecorder) WriteHeader(int) {}

// What is delivered again is shown for the hook, the queue and the operator.
func TestRequeues(t *testing.T) { synctest.Test(t, requeuesOfAnHour) }

func requeuesOfAnHour(t *testing.T) {
	f := theOperator()
	soon := time.Now().Add(time.Hour)
	f.queues[2].Due = []pending.Due{{Hook: f.hooks[1], Queue: "spare", Events: 12, Objects: 12, Next: soon}}
	f.queues[0].Due = []pending.Due{{Hook: f.hooks[2], Queue: "main", Events: 1, Next: soon.Add(time.Hour)}}
	for i := range f.queues {
		f.queues[i].Requeues = requeues(f.queues[i:i+1], nil)
	}
	page := operate(f)
	for path, want := range map[string]string{
		"/hook/big.py/why.text":  "- 12 objects are delivered again, the next in 1h0m0s\n",
		"/hook/tidy.sh/why.text": "- 1 event is delivered again in 2h0m0s\n",
		"/hook/big.py/why.json":  `{"kind":"requeue","blocks":false,"text":"12 objects are delivered again, the next in 1h0m0s"}`,
		"/status.text":           "\n13 events are delivered again, the next in 1h0m0s\n",
		"/status.json":           `"requeues":{"events":13,"objects":12,"next":3600}`,
		"/queues.json":           `"requeues":{"events":12,"objects":12,"next":3600}`,
		"/queue/list.text":       "12 objects are delivered again, the next in 1h0m0s\n\nSummary",
		"/queue/list.json":       `"requeues":{"events":12,"objects":12,"next":3600}`,
	} {
		r := httptest.NewRecorder()
		page.api().ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		if !strings.Contains(r.Body.String(), want) {
			t.Errorf("%s lacks %s:\n%s", path, want, r.Body)
		}
	}
	s := Queue{Name: "spare", Requeues: &Requeues{Events: 12, Objects: 12}}
	if text := listed(t, listOf("queues", 0, (*Queue).cells), []Queue{s}); !strings.Contains(text, "12 objects are delivered again") {
		t.Error(text)
	}
}
