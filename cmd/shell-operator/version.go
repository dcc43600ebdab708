package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersionCommand(stdout io.Writer) *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output != formatText {
				return printValue(stdout, output, map[string]string{"version": version, "jq": "gojq", "go": runtime.Version(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintf(stdout, "shell-operator %s\njqFilter by gojq, built in\n", version)
			return err
		},
	}
	addFormat(c, &output, formatText, formatJSON, formatYAML)
	return c
}
