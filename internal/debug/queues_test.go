package debug

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/run/pending"
)

// The formats are those that scripts have known for years.
func TestQueueDumps(t *testing.T) {
	all := theQueues()
	idle := []Queue{{Name: "main"}, {Name: "spare"}}
	for _, test := range []struct {
		name   string
		dump   interface{ text() string }
		format format
		want   string
	}{
		{"text", dumpAll(all, true), textFormat, `Queue 'main': length 2, status: 'run first task'

 1. HookRun:main:kubernetes:shop/watch.sh:pods
 2. HookRun:main:schedule:tidy.sh:group=nightly:every-night

Queue 'slow': length 1, status: 'sleep after fail for 5s (3s left of 5s delay)'

 1. HookRun:slow:kubernetes:big.py:cms:failures 4:big.py FAILED: boom

Empty queues (1):
- spare

Summary:
- 'main' queue: 2 tasks.
- 2 other queues (1 active, 1 empty): 1 task.
- total 3 tasks to handle.
`},
		{"json", dumpAll([]Queue{{Name: "main", Length: 1, Status: "run first task", Tasks: all[0].Tasks[:1]}, {Name: "spare"}}, true),
			jsonFormat,
			`{"active":[{"name":"main","tasksCount":1,"status":"run first task","tasks":[{"index":1,` +
				`"description":"HookRun:main:kubernetes:shop/watch.sh:pods"}]}],` +
				`"empty":[{"name":"spare","tasksCount":0}],"summary":{"mainQueueTasks":1,"otherQueues":{"active":0,"empty":1,"tasks":0},` +
				`"totalTasks":1}}`},
		{"yaml has the keys of json", dumpAll(all[1:], false), yamlFormat, `active:
- name: slow
  status: sleep after fail for 5s (3s left of 5s delay)
  tasks:
  - description: 'HookRun:slow:kubernetes:big.py:cms:failures 4:big.py FAILED: boom'
    index: 1
  tasksCount: 1
summary:
  mainQueueTasks: 0
  otherQueues:
    active: 1
    empty: 1
    tasks: 1
  totalTasks: 1
`},
		{"empty ones are not asked for", dumpAll(idle, false), jsonFormat,
			`{"active":[],"summary":{"mainQueueTasks":0,"otherQueues":{"active":0,"empty":1,"tasks":0},"totalTasks":0}}`},
		{"nothing to do", dumpAll(idle, true), textFormat,
			"Empty queues (2):\n- main\n- spare\n\nSummary:\n- 'main' queue: empty.\n- 1 other queue (0 active, 1 empty): 0 tasks.\n- no tasks " +
				"to handle.\n"},
		{"main alone and idle is not listed as empty", dumpAll(idle[:1], true), textFormat,
			"Summary:\n- 'main' queue: empty.\n- no tasks to handle.\n"},
		{"main alone, json", dumpAll(idle[:1], true), jsonFormat,
			`{"active":[],"summary":{"mainQueueTasks":0,"otherQueues":{"active":0,"empty":0,"tasks":0},"totalTasks":0}}`},
		{"no queues", dumpAll(nil, true), textFormat, "Summary:\n  No queues.\n"},
		{"the main queue", dumpOf(all[0]), textFormat,
			"Queue 'main': length 2, status: 'run first task'\n\n 1. HookRun:main:kubernetes:shop/watch.sh:pods\n 2. " +
				"HookRun:main:schedule:tidy.sh:group=nightly:every-night\n"},
		{"the main queue, idle", dumpOf(idle[0]), jsonFormat, `{"name":"main","tasksCount":0}`},
		{"errors with many lines stay on one",
			dumpOf(Queue{Name: "q", Length: 1, Failures: 1, LastError: "a\nb\r\nc", Tasks: []Task{{Description: "x"}}}), textFormat,
			"Queue 'q': length 1, status: ''\n\n 1. x:failures 1:a b c\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &bodyRecorder{}
			if err := (answer{value: test.dump, text: test.dump.text()}).write(w, test.format); err != nil {
				t.Fatal(err)
			}
			if got := w.String(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
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
func TestRequeues(t *testing.T) {
	f := theOperator()
	soon := time.Now().Add(time.Hour)
	f.queues[2].Requeues = []pending.Due{{Hook: f.hooks[1], Queue: "spare", Events: 12, Objects: 12, Next: soon}}
	f.queues[0].Requeues = []pending.Due{{Hook: f.hooks[2], Queue: "main", Events: 1, Next: soon.Add(time.Hour)}}
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
	s := QueueStatus{Name: "spare", Requeues: &Requeues{Events: 12, Objects: 12}}
	if text := listed(t, listOf[QueueStatus]("queues", 0), []QueueStatus{s}); !strings.Contains(text, "12 objects are delivered again") {
		t.Error(text)
	}
}
