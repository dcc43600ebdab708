package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shell-operator/shell-operator/internal/debug"
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
		return l.watch(cmd)
	case !asTable && l.output != "name":
		return l.asking.show(cmd.Context(), l.path, l.query)
	}
	t, err := l.table(cmd.Context())
	if err != nil {
		return err
	}
	if l.output == "name" {
		return l.print(strings.NewReader(strings.Join(append(t.Names(), ""), "\n")))
	}
	lines, _ := t.Texts(l.output == "wide", time.Now())
	return l.print(strings.NewReader(l.text(&t, lines)))
}

func (l *listing) table(ctx context.Context) (t debug.Table, err error) {
	body, err := l.client().Get(ctx, l.path+".json"+queryOf(l.query))
	if err != nil {
		return t, err
	}
	defer body.Close()
	answer, err := io.ReadAll(body)
	if err != nil {
		return t, cutOff(err)
	}
	return l.list.Table(answer)
}

// text renders lines. On a terminal they are cut at its width, unless all columns are shown.
func (l *listing) text(t *debug.Table, lines [][]string) string {
	rest := t.Rest
	if rest != "" {
		rest += "\n"
	}
	switch {
	case len(lines) == 1:
		return "no " + t.About + "\n" + rest
	case l.output == "wide":
		return aligned(lines, 0) + rest
	}
	return columns(lines) + rest
}

// watch refreshes the screen of a terminal. Elsewhere it prints the table and then, as kubectl does, each row that is new or has changed.
func (l *listing) watch(cmd *cobra.Command) error {
	wide := l.output == "wide"
	if isTerminal(l.stdout) {
		return l.repeat(cmd, l.list.Every, func(ctx context.Context) error {
			t, err := l.table(ctx)
			if err != nil {
				return err
			}
			lines, _ := t.Texts(wide, time.Now())
			return l.print(strings.NewReader(l.text(&t, fitting(lines))))
		})
	}
	var before []string
	return l.every(cmd, l.list.Every, func(ctx context.Context) error {
		t, err := l.table(ctx)
		if err != nil {
			return err
		}
		var changed [][]string
		lines, keys := t.Texts(wide, time.Now())
		for i, key := range keys {
			if !slices.Contains(before, key) {
				changed = append(changed, lines[i])
			}
		}
		before = keys
		if len(changed) == 0 {
			return nil
		}
		return l.print(strings.NewReader(aligned(changed, 0)))
	})
}

// fitting are the first rows, as many as fit on the screen.
func fitting(rows [][]string) [][]string {
	_, height, err := term.GetSize(int(os.Stdout.Fd()))
	if most := height - 2; err == nil && most > 1 && len(rows) > most {
		more := fmt.Sprintf("and %d more", len(rows)-most)
		return append(slices.Clone(rows[:most]), []string{more})
	}
	return rows
}

// every calls show again and again until Ctrl-C.
func (a *asking) every(cmd *cobra.Command, period time.Duration, show func(context.Context) error) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		if err := show(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// clearScreen moves the cursor home and clears the terminal.
const clearScreen = "\x1b[H\x1b[2J"

// repeat refreshes the screen until Ctrl-C.
func (a *asking) repeat(cmd *cobra.Command, period time.Duration, show func(context.Context) error) error {
	return a.every(cmd, period, func(ctx context.Context) error {
		_, err := io.WriteString(a.stdout, clearScreen)
		return errors.Join(err, show(ctx))
	})
}
