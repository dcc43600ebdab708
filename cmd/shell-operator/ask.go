package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// asking is what the clients of a running operator have in common.
type asking struct {
	settings *settings
	stdout   io.Writer
	timeout  time.Duration
	// direct is a client that needs no operator.
	direct *debug.Client
	output string
}

// newAskCommands returns all commands that need a running operator.
func newAskCommands(s *settings, stdout io.Writer) []*cobra.Command {
	clients, parents := map[string]*asking{}, map[string]*cobra.Command{}
	client := func(name string) *asking {
		if clients[name] == nil {
			clients[name] = &asking{settings: s, stdout: stdout}
		}
		return clients[name]
	}
	for name, make := range map[string]func(*asking) *cobra.Command{
		"status": newStatusCommand, "tail": newTailCommand, "raw": newRawCommand, "console": newConsoleCommand,
	} {
		parents[name] = make(client(name))
	}
	addRouteCommands(parents, client)
	parents["queue"].AddCommand(newQueueListCommand(client("queue")))
	parents["runs"].AddCommand(newRunsSaveCommand(client("runs")))
	commands := []*cobra.Command{}
	for _, name := range slices.Sorted(maps.Keys(parents)) {
		c := uses(parents[name], "debug-unix-socket")
		if name == "sets" {
			client(name).withoutOperator(c)
		}
		for _, sub := range c.Commands() {
			if sub.Annotations == nil {
				uses(sub, "debug-unix-socket")
			}
		}
		c.PersistentFlags().DurationVar(&client(name).timeout, "timeout", 10*time.Second, "time limit for the operator's answer to begin")
		commands = append(commands, c)
	}
	return commands
}

// Formats of answers, the default first. Tables of lists are made here, from JSON.
var (
	answerFormats = []string{formatText, formatJSON, formatYAML}
	listFormats   = []string{"table", "wide", "name", formatJSON, formatYAML}
)

// out is stdout. On a terminal it escapes control characters: answers contain output of hooks and names of objects.
func (a *asking) out() io.Writer {
	if isTerminal(a.stdout) {
		return &escaping{w: a.stdout}
	}
	return a.stdout
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *asking) client() *debug.Client {
	if a.direct != nil {
		return a.direct
	}
	return debug.NewClient(a.settings.place(), a.timeout)
}

// show prints the answer to a path without extension, and a query.
func (a *asking) show(ctx context.Context, path, query string) error {
	return a.raw(ctx, path+"."+a.output+queryOf(query))
}

// raw prints the answer to a path as it is.
func (a *asking) raw(ctx context.Context, path string) error {
	body, err := a.client().Get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	return a.print(body)
}

// get returns the answer to a path.
func (a *asking) get(ctx context.Context, path string) ([]byte, error) {
	body, err := a.client().Get(ctx, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	answer, err := io.ReadAll(body)
	return answer, cutOff(err)
}

func queryOf(query string) string {
	if query == "" {
		return ""
	}
	return "?" + query
}

// print copies an answer.
func (a *asking) print(body io.Reader) error {
	_, err := io.Copy(a.out(), body)
	return cutOff(err)
}

// cutOff explains an answer that ends early.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the operator closed the connection before its answer was complete: %w", err)
	}
	return err
}

// place is where the operator's socket is, for the operator and for its clients.
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
	return app.DebugOptions{Place: s.place(), Address: s.debugHTTP, Level: s.level}
}
