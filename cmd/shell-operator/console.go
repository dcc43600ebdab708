package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/console"
	"github.com/shell-operator/shell-operator/internal/debug"
)

func newConsoleCommand(a *asking) *cobra.Command {
	var address string
	var noBrowser bool
	c := &cobra.Command{
		Use:   "console [PATH]",
		Short: "Show a running operator in the browser",
		Long: `Serve pages about a running operator on a loopback address, and open the browser: its problems, hooks, queues and runs, what is
known of an object, parked tasks, sets, finalizers, and the stream of runs. Actions are confirmed first, and each page shows the
command for it. PATH is the page to open, such as /runs/17-2.

For an operator in a cluster, run it in the Pod with --no-browser and a fixed port, and forward that port with "kubectl port-forward".
The address is valid once, and for a minute; Enter makes another one.`,
		Example: "  shell-operator console\n  shell-operator console /hooks/pods.sh\n  " +
			"shell-operator console --no-browser --listen 127.0.0.1:8080",
		Args: upToOne("one page"),

		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal()
			defer stop()
			served, err := console.Listen(console.Options{
				Operator: debug.NewClient(a.settings.place(), a.timeout), Flags: a.socketFlag(), Timeout: a.timeout,
				Version: version, Listen: address, Routes: app.Routes(),
			})
			if err != nil {
				return err
			}
			open := openBrowser
			if noBrowser {
				open = nil
			}
			// A read of standard input cannot be ended: it ends with the process.
			go served.Announce(cmd.InOrStdin(), a.stdout, strings.Join(args, ""), open)
			return served.Run(ctx)
		},
	}
	c.Flags().StringVar(&address, "listen", "127.0.0.1:0", "loopback address and port; port 0 is a free one")
	c.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address instead of opening it")
	return c
}

// socketFlag is the flag that the commands on pages need.
func (a *asking) socketFlag() string {
	if !a.settings.debugSocketChosen {
		return ""
	}
	return "--debug-unix-socket " + console.Quote(a.settings.debugSocket)
}

// browserPatience is how long the program that opens the browser has to fail; it may run as long as the browser does.
const browserPatience = 3 * time.Second

// openBrowser opens a file in the browser of the desktop. Without a desktop, xdg-open may start a browser in the terminal.
func openBrowser(file string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("cannot open the browser: there is no display")
	}
	cmd := exec.Command(program, "file://"+(&url.URL{Path: file}).EscapedPath())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot open the browser: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(browserPatience):
		return nil
	}
}
