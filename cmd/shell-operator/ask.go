package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// asking is what commands have in common that ask a running operator.
type asking struct {
	settings *settings
	stdout   io.Writer
	timeout  time.Duration
	output   string
}

// newAskCommands returns all commands that need a running operator.
func newAskCommands(s *settings, stdout io.Writer) []*cobra.Command {
	commands := []*cobra.Command{}
	for _, make := range []func(*asking) *cobra.Command{
		newQueueCommand, newHookCommand, newRunsCommand, newWhyCommand, newTailCommand, newConfigCommand, newRawCommand,
	} {
		a := &asking{settings: s, stdout: stdout}
		c := uses(make(a), "debug-unix-socket")
		for _, sub := range c.Commands() {
			uses(sub, "debug-unix-socket")
		}
		c.PersistentFlags().DurationVar(&a.timeout, "timeout", 10*time.Second, "how long to wait for the operator to answer")
		commands = append(commands, c)
	}
	return commands
}

// addOutput adds the flag for the format to commands that have a choice.
func (a *asking) addOutput(c *cobra.Command) {
	c.Flags().StringVarP(&a.output, "output", "o", "", "json, yaml or text; on a terminal a table is the default, elsewhere text")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "text"}, cobra.ShellCompDirectiveNoFileComp))
}

// format is the ending of the path; a table is made from JSON.
func (a *asking) format(hasTable bool) (format string, asTable bool, err error) {
	switch a.output {
	case "json", "yaml", "text":
		return a.output, false, nil
	case "":
		if hasTable && isTerminal(a.stdout) {
			return "json", true, nil
		}
		return "text", false, nil
	}
	return "", false, fmt.Errorf("-o %q: use json, yaml or text", a.output)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *asking) client() *debug.Client {
	return debug.NewClient(a.settings.place(), a.timeout)
}

// interruptible ends with Ctrl-C, which is how people end what has no end.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
}

// table makes a table of an answer in JSON.
type table func(answer []byte) (string, error)

// show prints the answer to a question whose path has no ending, and a query.
func (a *asking) show(ctx context.Context, path, query string, render table) error {
	format, asTable, err := a.format(render != nil)
	if err != nil {
		return err
	}
	if query != "" {
		query = "?" + query
	}
	body, err := a.client().Get(ctx, path+"."+format+query)
	if err != nil {
		return err
	}
	defer body.Close()
	if asTable {
		text, err := io.ReadAll(body)
		if err != nil {
			return cutOff(err)
		}
		rendered, err := render(text)
		if err != nil {
			return err
		}
		body = io.NopCloser(bytes.NewBufferString(rendered))
	}
	return a.print(body)
}

// print copies an answer and adds a line end if it has none.
func (a *asking) print(body io.Reader) error {
	last := &lastByte{w: a.stdout}
	if _, err := io.Copy(last, body); err != nil {
		return cutOff(err)
	}
	if last.any && last.b != '\n' {
		_, err := io.WriteString(a.stdout, "\n")
		return err
	}
	return nil
}

// cutOff tells what an answer that ends early means.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the operator has hung up before its answer was complete: %w", err)
	}
	return err
}

// lastByte remembers the last byte that was written.
type lastByte struct {
	w   io.Writer
	any bool
	b   byte
}

func (l *lastByte) Write(b []byte) (int, error) {
	if len(b) > 0 {
		l.any, l.b = true, b[len(b)-1]
	}
	return l.w.Write(b)
}

// place is where the operator's socket is, for the operator itself and for those who ask it.
func (s *settings) place() debug.Place {
	runtime := s.env["XDG_RUNTIME_DIR"]
	if runtime != "" {
		runtime = filepath.Join(runtime, "shell-operator")
	} else {
		runtime = filepath.Join(os.TempDir(), "shell-operator-"+strconv.Itoa(os.Geteuid()))
	}
	return debug.Place{Socket: s.debugSocket, Chosen: s.debugSocketChosen, Runtime: runtime}
}

func (s *settings) debugOptions() app.DebugOptions {
	p := s.place()
	return app.DebugOptions{Socket: p.Socket, SocketChosen: p.Chosen, RuntimeDir: p.Runtime, Address: s.debugHTTP, Level: s.level}
}
