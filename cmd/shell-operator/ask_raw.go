package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

func newRawCommand(a *asking) *cobra.Command {
	connected := false
	c := &cobra.Command{
		Use:   "raw [PATH]",
		Short: "GET a path of the debug API",
		Long: `GET a path of the debug API and print the answer. Without a path it checks that the operator answers.

With --connect it joins its standard input and output with the debug socket, until one of them ends: for programs that call the API from
elsewhere, by kubectl exec -i. The socket takes HTTP/1.1, and HTTP/2 without TLS.

* is the name of a hook, a queue, a run or an object. The paths are:

    ` + strings.Join(debug.Paths(app.Routes()), "\n    "),
		Example: "  shell-operator raw /queue/main.yaml\n  shell-operator raw '/queue/list.json?showEmpty=true'",
		Args:    upToOne("one path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if connected {
				if len(args) > 0 {
					return errors.New("raw --connect takes no path: what it reads from standard input has them")
				}
				return a.connect(cmd.Context(), cmd.InOrStdin())
			}
			path := "/"
			if len(args) == 1 {
				path = args[0]
			}
			body, err := a.client().Get(cmd.Context(), path)
			if err != nil {
				return err
			}
			defer body.Close()
			return a.print(body)
		},
	}
	c.Flags().BoolVar(&connected, "connect", false, "join standard input and output with the debug socket")
	return c
}

// connect joins standard input and output with the debug socket until one of them ends. It ends the process with it: a read of standard
// input cannot be ended.
func (a *asking) connect(ctx context.Context, stdin io.Reader) error {
	dialing, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	conn, err := a.settings.place().Dial(dialing)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, stdin)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(a.stdout, conn)
		if err == nil {
			err = errors.New("the operator has closed the connection")
		}
		ended <- err
	}()
	return <-ended
}
