package main

import (
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns sets rows as a table. The last column is cut where the terminal ends.
func columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = w.Write([]byte("\t"))
			}
			_, _ = w.Write([]byte(plain(cell)))
		}
		_, _ = w.Write([]byte("\n"))
	}
	_ = w.Flush()
	width := 0
	if n, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		width = n
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = cut(strings.TrimRight(lines[i], " "), width)
	}
	return strings.Join(lines, "\n")
}

// plain keeps what hooks write from moving the cursor.
func plain(cell string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, cell)
}

// cut shortens a line to a width; 0 means any.
func cut(line string, width int) string {
	if width < 10 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
