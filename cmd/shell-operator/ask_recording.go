package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
	"github.com/shell-operator/shell-operator/internal/dev"
)

func newRunsSaveCommand(a *asking) *cobra.Command {
	return &cobra.Command{
		Use:   "save RUN [FILE|-]",
		Short: "Save the recording of a run, to replay it elsewhere",
		Long: `Save the recording of a run: its binding contexts, the end of its output, its operations, metrics and answer. Of a run that
has Secrets, or that answers an HTTP request, it has addresses, types, statuses and times only, and cannot be replayed. FILE is RUN.json by
default, and never overwritten; "-" is standard output. "shell-operator run HOOK --from FILE" replays it.

By default the last failed run of each hook is recorded; "shell-operator hook record" records all runs of a hook for a while.`,
		Example: "  shell-operator runs save 17-2\n  shell-operator runs save 17-2 - >failed.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return errors.New("runs save takes the id of one run: shell-operator runs lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.get(cmd.Context(), "/run/"+debug.Name(args[0])+"/recording.json")
			if err != nil {
				return err
			}
			file := args[0] + ".json"
			if len(args) == 2 {
				file = args[1]
			}
			if file == "-" {
				_, err := a.stdout.Write(text)
				return err
			}
			if err := dev.Create(file, text, 0o600); errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s exists, it is not overwritten: name another file, or - for standard output", file)
			} else if err != nil {
				return fmt.Errorf("cannot save the recording: %w", err)
			}
			var saved struct{ Hook, WithoutValues string }
			if err := json.Unmarshal(text, &saved); err != nil {
				return err
			}
			if saved.WithoutValues != "" {
				_, err = fmt.Fprintf(a.stdout, "saved %s\nit has no values and cannot be replayed: %s\n", file, saved.WithoutValues)
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "saved %s\nnext: shell-operator run %s --from %s\n", file, saved.Hook, file)
			return err
		},
	}
}
