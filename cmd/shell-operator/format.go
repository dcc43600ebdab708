package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Values of -o: how a command prints its result.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatYAML   = "yaml"
	formatSchema = "json-schema"
)

// addFormat adds -o to a command, which sets f before the command runs. The first of the formats is the default.
func addFormat(cmd *cobra.Command, f *string, formats ...string) {
	cmd.Flags().StringP("output", "o", formats[0], "form of the result: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *f = cmd.Flag("output").Value.String(); !slices.Contains(formats, *f) {
			return fmt.Errorf("--output %q: use one of %s", *f, strings.Join(formats, ", "))
		}
		return nil
	}
}

// printValue prints a value as JSON or YAML.
func printValue(w io.Writer, f string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	text = append(text, '\n')
	if f == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("cannot print the result: %w", err)
		}
	}
	_, err = w.Write(text)
	return err
}
