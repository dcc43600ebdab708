package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

func newTailCommand(a *asking) *cobra.Command {
	last := 0
	c := &cobra.Command{
		Use:     "tail [HOOK]",
		Aliases: []string{"logs"},
		Short:   "Follow runs and the output of hooks",
		Long: `Follow the runs of all hooks or of one: start and cause, output, outcome. It ends with Ctrl-C or with the operator.
With -o json each line is an object, with -o yaml each entry is a document.

It never slows hooks down: entries that arrive faster than they are read are dropped and counted.`,
		Example: "  shell-operator tail\n  shell-operator tail pods.sh --last 5\n  " +
			"shell-operator tail -o json | jq -r 'select(.kind == \"ended\").text'",
		Args: upToOne("one hook"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal()
			defer stop()
			query, whom := url.Values{"last": {strconv.Itoa(last)}}, "all hooks"
			if len(args) == 1 {
				query["hook"], whom = args, args[0]
			}
			body, err := a.client().Get(ctx, "/tail."+a.output+queryOf(query.Encode()))
			if err == nil {
				defer body.Close()
				fmt.Fprintf(cmd.ErrOrStderr(), "following %s, until Ctrl-C\n", whom)
				_, err = io.Copy(a.out(), body)
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
	addFormat(c, &a.output, answerFormats...)
	c.Flags().BoolP("follow", "f", true, "follow until Ctrl-C, which tail does in any case")
	c.Flags().IntVar(&last, "last", 0, "begin with the ends of the last `N` runs")
	return c
}
