// Package console serves pages about a running operator to the browser of one person.
//
// Callers may rely on this:
//   - It listens on a loopback address. A page is shown only to the browser that was opened with an address of the console, which is valid
//     once and for a minute, and is in a file of its user; a second use ends all sessions. Requests of other pages are rejected.
//   - It shows what the debug API answers, and changes something only by its routes, after the person has seen the dry run.
//   - Names, keys, outputs and contexts are text: never HTML, never links that they name.
//   - Without a page that is open it sends no request. When the operator does not answer, pages keep what they show.
//
// It keeps nothing, and knows nothing of hooks but the answers of the API.
package console

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// Options of a console.
type Options struct {
	Operator Operator
	// Timeout is the time limit of an answer; 10 s if it is 0.
	Timeout time.Duration
	// Version is the version of the console.
	Version string
	// Flags end the commands on pages, such as the flag of the socket.
	Flags string
	// Routes are the routes of the operator with commands: pages show their lists and offer their actions.
	Routes []debug.Route
	// Listen is a loopback address and a port, 0 for a free one.
	Listen string

	now func() time.Time
}

// Console is one that listens.
type Console struct {
	o         Options
	listener  net.Listener
	access    *access
	link      *link
	templates *template.Template
}

// Listen takes the address; Run serves it.
func Listen(o Options) (*Console, error) {
	if o.now == nil {
		o.now = time.Now
	}
	listener, err := listen(o.Listen)
	if err != nil {
		return nil, err
	}
	c := &Console{o: o, listener: listener, access: newAccess(listener.Addr().String(), o.now)}
	c.link = newLink(&c.o)
	c.templates = c.parse()
	return c, nil
}

// Address makes an address that opens a page once, within a minute: "/runs/17-2". Without a path it is the overview.
func (c *Console) Address(page string) string {
	return c.access.address("/" + strings.TrimPrefix(page, "/"))
}

// Run serves until the context ends. Streams end then; other requests have a second.
func (c *Console) Run(ctx context.Context) error {
	defer c.access.close()
	server := &http.Server{
		Handler: c.access.guard(c.routes()), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if err := httpserver.Serve(ctx, server, c.listener, time.Second); err != nil {
		return fmt.Errorf("the console has ended: %w", err)
	}
	return nil
}

// command is the text of a command of the operator that a person can copy to a shell.
func (c *Console) command(words ...string) string {
	text := "shell-operator"
	for _, word := range words {
		text += " " + Quote(word)
	}
	return strings.TrimSpace(text + " " + c.o.Flags) // quoted as they are
}

// Announce opens the browser with a file, or prints an address, and prints another one for each line that the person enters.
func (c *Console) Announce(in io.Reader, out io.Writer, page string, open func(file string) error) {
	c.access.mu.Lock()
	c.access.reused = func() {
		fmt.Fprintln(out, "An address of the console was opened twice, so another program has read it: all sessions have ended.\n"+
			"Enter makes another address.")
	}
	c.access.mu.Unlock()
	page = "/" + strings.TrimPrefix(page, "/")
	file, err := "", error(nil)
	if open != nil {
		if file, err = c.access.file(page); err == nil {
			err = open(file)
		}
	}
	if open != nil && err != nil {
		fmt.Fprintln(out, "No browser could be started: --no-browser does not try it.")
	}
	if open == nil || err != nil {
		fmt.Fprintf(out, "Open %s\nIt is valid once, and for a minute. Enter makes another one, Ctrl-C ends the console.\n", c.Address(page))
	} else {
		fmt.Fprintf(out, "The console is open in the browser. Enter makes another address, Ctrl-C ends the console.\n")
	}
	one := make([]byte, 1)
	for {
		if n, err := in.Read(one); n > 0 && one[0] == '\n' {
			fmt.Fprintf(out, "Open %s\n", c.Address(page))
		} else if err != nil {
			return
		}
	}
}
