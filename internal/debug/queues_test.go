package debug

import (
	"bytes"
	"net/http"
	"testing"
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
