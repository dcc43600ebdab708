package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newTailCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [HOOK]",
		Short: "Follow runs and what hooks print, until Ctrl-C",
		Long: `Follow the runs of all hooks or of one: when they begin and why, what they print, how they end. It goes on until
Ctrl-C or the end of the operator. With -o json each line is an object, with -o yaml there is a document for each.

Hooks never wait for it: what comes faster than it is read is left out, and counted.`,
		Example: "  shell-operator tail\n  shell-operator tail pods.sh\n  shell-operator tail -o json | jq -r 'select(.kind == \"ended\").text'",
		Args:    upToOne("one hook"),

		ValidArgsFunction: a.hookNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, _, err := a.format(false)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			path, whom := "/tail", "all hooks"
			if len(args) == 1 {
				path, whom = "/hook/"+debug.Name(args[0])+"/tail", args[0]
			}
			body, err := a.client().Get(ctx, path+"."+format)
			if err == nil {
				defer body.Close()
				// Nothing may come for long: who looks knows now that it would.
				fmt.Fprintf(cmd.ErrOrStderr(), "following %s, until Ctrl-C\n", whom)
				_, err = io.Copy(a.stdout, body)
			}
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // the operator has ended
			}
			return err
		},
	}
	a.addOutput(c)
	return c
}
