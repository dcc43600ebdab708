package main

import (
	"strings"
	"testing"
)

// An error with many lines, or with tabs, stays in the row of its queue.
func TestCellsStayInTheirRow(t *testing.T) {
	const status = `sleep after fail for 5s: exit status 1:\r\nline two\n\tline three`
	text, err := queuesTable([]byte(`{"active": [{"name": "main", "tasksCount": 2, "status": "` + status +
		`", "tasks": [{"index": 1, "description": "first\ntask"}]}, {"name": "other", "tasksCount": 1, "status": "run first task"}]}`))
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if err != nil || len(lines) != 3 || !strings.Contains(lines[1], "exit status 1: line two  line three") ||
		!strings.HasSuffix(lines[1], "first task") || !strings.HasPrefix(lines[2], "other ") {
		t.Errorf("%v:\n%s", err, text)
	}
	for i := range lines[1:] {
		if at := strings.Index(lines[0], "TASKS"); lines[i+1][at-1] != ' ' || lines[i+1][at] == ' ' {
			t.Errorf("the columns are not aligned:\n%s", text)
		}
	}
	text, err = queueTable([]byte(`{"name": "main", "tasksCount": 2, "tasks": [{"index": 1, "description": "a\nb"}, {"index": 2, ` +
		`"description": "c"}]}`))
	if lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n"); err != nil || len(lines) != 3 || !strings.HasSuffix(lines[1], "a b") {
		t.Errorf("%v:\n%s", err, text)
	}
}
