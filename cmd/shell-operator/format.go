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

// format is the value of -o: how a command prints its result.
type format string

const (
	formatText   format = "text"
	formatJSON   format = "json"
	formatYAML   format = "yaml"
	formatSchema format = "json-schema"
)

// addFormat adds -o to a command. The first of the formats is the default.
func addFormat(cmd *cobra.Command, f *string, formats ...format) {
	words := make([]string, len(formats))
	for i, known := range formats {
		words[i] = string(known)
	}
	cmd.Flags().StringVarP(f, "output", "o", words[0], "form of the result: "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(words, *f) {
			return fmt.Errorf("--output %q: use one of %s", *f, strings.Join(words, ", "))
		}
		if check != nil {
			return check(cmd, args)
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
	if format(f) == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("cannot print the result: %w", err)
		}
	}
	_, err = w.Write(text)
	return err
}
