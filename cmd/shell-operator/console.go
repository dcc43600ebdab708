package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/console"
	"github.com/shell-operator/shell-operator/internal/debug"
)

// consoleFlags are those of the command console, here and in the plugin.
type consoleFlags struct {
	listen    string
	noBrowser bool
	pod       string
}

func newConsoleCommand(a *asking) *cobra.Command {
	f := &consoleFlags{}
	c := &cobra.Command{
		Use:   "console [PATH]",
		Short: "Show a running operator in the browser",
		Long: `Serve pages about a running operator on a loopback address, and open the browser: its problems, hooks, queues and runs, what is
known of an object, parked tasks, sets, finalizers, and the stream of runs. Actions are confirmed first, and each page shows the
command for it. PATH is the page to open, such as /runs/17-2.

For an operator in a cluster, use "kubectl shell-operator console -n NAMESPACE" on your own machine. The address is valid once, and for a
minute; Enter makes another one.`,
		Example: "  shell-operator console\n  shell-operator console /hooks/pods.sh\n  " +
			"shell-operator console --no-browser --listen 127.0.0.1:8080",
		Args: upToOne("one page"),

		RunE: func(cmd *cobra.Command, args []string) error {
			if f.pod != "" {
				return errors.New("--pod names a Pod of a cluster: use kubectl shell-operator console --pod " + f.pod)
			}
			page := ""
			if len(args) == 1 {
				page = args[0]
			}
			ctx, stop := untilSignal()
			defer stop()
			return f.serve(ctx, cmd.InOrStdin(), a.stdout, page, console.Options{
				Operator: debug.NewClient(a.settings.place(), a.timeout), Program: "shell-operator", Flags: a.socketFlag(), Timeout: a.timeout,
			})
		},
	}
	f.add(c)
	return c
}

func (f *consoleFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback address and port; port 0 is a free one")
	c.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address instead of opening it")
	c.Flags().StringVar(&f.pod, "pod", "", "Pod of another replica, with kubectl shell-operator")
}

// socketFlag is the flag that the commands on pages need.
func (a *asking) socketFlag() string {
	if !a.settings.debugSocketChosen {
		return ""
	}
	return "--debug-unix-socket " + console.Quote(a.settings.debugSocket)
}

// serve serves until the context ends.
func (f *consoleFlags) serve(ctx context.Context, in io.Reader, out io.Writer, page string, o console.Options) error {
	o.Version, o.Listen, o.Routes = version, f.listen, app.Routes()
	c, err := console.Listen(o)
	if err != nil {
		return err
	}
	open := openBrowser
	if f.noBrowser {
		open = nil
	}
	// A read of standard input cannot be ended: it ends with the process.
	go c.Announce(in, out, page, open)
	return c.Run(ctx)
}

// openBrowser opens a file in the browser of the desktop.
func openBrowser(file string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	cmd := exec.Command(program, "file://"+(&url.URL{Path: file}).EscapedPath())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot open the browser: %w", err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
