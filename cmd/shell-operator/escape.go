package main

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/console"
)

// escaping writes visible text to a terminal.
type escaping struct {
	w io.Writer
	// rest is the beginning of a character whose end has not been written yet.
	rest []byte
}

func (e *escaping) Write(text []byte) (int, error) {
	all := append(e.rest, text...)
	last := len(all) - 1
	for last > 0 && last > len(all)-utf8.UTFMax && !utf8.RuneStart(all[last]) {
		last--
	}
	if last < 0 || utf8.FullRune(all[last:]) {
		last = len(all)
	}
	e.rest = bytes.Clone(all[last:])
	if _, err := io.WriteString(e.w, console.Visible(string(all[:last]))); err != nil {
		return 0, err
	}
	return len(text), nil
}
