package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// listing shows the list at a path.
type listing struct {
	*asking
	list        *debug.List
	path, query string
}

// show prints the list in the format of the command, or its changes until Ctrl-C.
func (l *listing) show(cmd *cobra.Command, watched bool) error {
	asTable := l.output == "table" || l.output == "wide"
	switch {
	case watched && !asTable:
		return &hinted{fmt.Errorf("--watch shows tables, not %s", l.output), "shell-operator tail -o json streams runs as they happen"}
	case watched:
		return l.repeat(l.list.Every, l.printTable)
	case !asTable && l.output != "name":
		return l.asking.show(cmd.Context(), l.path, l.query)
	}
	return l.printTable(cmd.Context())
}

// printTable prints the rows, or their names. On a terminal, lines are cut at its width, unless all columns are shown.
func (l *listing) printTable(ctx context.Context) error {
	t, err := l.table(ctx)
	if err != nil {
		return err
	}
	lines, text := t.Texts(l.output == "wide", time.Now()), ""
	switch {
	case l.output == "name":
		text = strings.Join(append(t.Names(), ""), "\n")
	case len(lines) == 1:
		text = "no " + t.About + "\n"
	case l.output == "wide":
		text = aligned(lines, 0)
	default:
		text = columns(lines)
	}
	if t.Rest != "" && l.output != "name" {
		text += t.Rest + "\n"
	}
	return l.print(strings.NewReader(text))
}

func (l *listing) table(ctx context.Context) (t debug.Table, err error) {
	answer, err := l.get(ctx, l.path+".json"+queryOf(l.query))
	if err != nil {
		return t, err
	}
	return l.list.Table(answer)
}

// clearScreen moves the cursor home and clears the terminal.
const clearScreen = "\x1b[H\x1b[2J"

// repeat calls show again and again until Ctrl-C. It clears a terminal before.
func (a *asking) repeat(period time.Duration, show func(context.Context) error) error {
	ctx, stop := untilSignal()
	defer stop()
	for again := true; again; again = kube.Wait(ctx, period, nil) {
		if isTerminal(a.stdout) {
			_, _ = io.WriteString(a.stdout, clearScreen)
		}
		if err := show(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
