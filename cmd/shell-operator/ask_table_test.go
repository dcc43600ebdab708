package main

import (
	"strings"
	"testing"
)

// An error with many lines, or with tabs, stays in its row.
func TestCellsStayInTheirRow(t *testing.T) {
	text := aligned([][]string{{"QUEUE", "ERROR", "TASKS"}, {"main", "exit status 1:\r\nline two\n\tline three", "2"}, {"other", "-", "1"}}, 0)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "exit status 1: line two  line three") || !strings.HasPrefix(lines[2], "other ") {
		t.Fatalf("\n%s", text)
	}
	for _, line := range lines[1:] {
		if at := strings.Index(lines[0], "TASKS"); line[at-1] != ' ' || line[at] == ' ' {
			t.Errorf("the columns are not aligned:\n%s", text)
		}
	}
}
