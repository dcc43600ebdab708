package main

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newStatusCommand(a *asking) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the problems of a running operator on one screen",
		Long: `Show the problems of a running operator on one screen: permissions, CRDs and connections that are missing, hooks that fail,
a reload that was rejected, tasks that wait for their next attempt or are parked, pauses; then counts of hooks and queues and the
last failed runs.

Exit codes: 0 if the operator is healthy, 1 if not, 2 if it does not answer.`,
		Example: "  shell-operator status\n  shell-operator status -o json | jq .healthy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, _, err := a.format(false)
			if err != nil {
				return err
			}
			body, err := a.client().Get(cmd.Context(), "/status.json")
			if err != nil {
				return &unanswered{err}
			}
			defer body.Close()
			answer, err := io.ReadAll(body)
			if err != nil {
				return &unanswered{cutOff(err)}
			}
			var s debug.Status
			if err := json.Unmarshal(answer, &s); err != nil {
				return err
			}
			if format == "text" {
				_, err = io.WriteString(a.out(), s.Text(time.Now()))
			} else {
				err = printValue(a.out(), format, json.RawMessage(answer))
			}
			return errors.Join(err, verdict(&s))
		},
	}
	a.addOutput(c)
	return c
}

// unanswered is the error of a status without an answer.
type unanswered struct{ error }

func (u *unanswered) Unwrap() error { return u.error }

func verdict(s *debug.Status) error {
	switch {
	case s.Healthy:
		return nil
	case s.Loading:
		return errors.New("hooks are still being loaded")
	}
	return errors.New("the operator is not healthy")
}
