package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/debug"
)

func newRawCommand(a *asking) *cobra.Command {
	return &cobra.Command{
		Use:   "raw [PATH]",
		Short: "GET a path of the debug API",
		Long: `GET a path of the debug API and print the answer. Without a path it checks that the operator answers.

* is the name of a hook, a queue, a run or an object. The paths are:

    ` + strings.Join(debug.Paths(app.Routes()), "\n    "),
		Example: "  shell-operator raw /queue/main.yaml\n  shell-operator raw '/queue/list.json?showEmpty=true'",
		Args:    upToOne("one path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/"
			if len(args) == 1 {
				path = args[0]
			}
			return a.raw(cmd.Context(), path)
		},
	}
}
