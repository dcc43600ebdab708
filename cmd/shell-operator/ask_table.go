package main

import (
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// oneLine keeps a cell in its row: errors may have many lines.
var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// columns renders rows as a table. On a terminal, lines are cut at its width.
func columns(rows [][]string) string {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return aligned(rows, width)
}

// aligned renders rows as a table with lines of at most a width; 0 means any.
func aligned(rows [][]string, width int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = w.Write([]byte("\t"))
			}
			_, _ = w.Write([]byte(oneLine.Replace(cell)))
		}
		_, _ = w.Write([]byte("\n"))
	}
	_ = w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = cut(strings.TrimRight(lines[i], " "), width)
	}
	return strings.Join(lines, "\n")
}

// cut shortens a line to a width; 0 means any.
func cut(line string, width int) string {
	if width < 10 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
