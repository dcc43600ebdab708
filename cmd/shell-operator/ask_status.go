package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newStatusCommand(a *asking) *cobra.Command {
	var url string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the problems of a running operator on one screen",
		Long: `Show the problems of a running operator on one screen: permissions, CRDs and connections that are missing, hooks that fail,
a reload that was rejected, tasks that wait for their next attempt or are parked, pauses; then counts of hooks and queues and the
last failed runs.

With --url it shows /readyz of an operator on another machine, which has no access to the rest.

Exit codes: 0 if the operator is healthy, 1 if not, 2 if it does not answer.`,
		Example: "  shell-operator status\n  shell-operator status -o json | jq .healthy\n  shell-operator status --url http://127.0.0.1:9115",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, _, err := a.format(false)
			if err != nil {
				return err
			}
			if url != "" {
				return a.readiness(cmd.Context(), url)
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
	c.Flags().StringVar(&url, "url", "", "address of the operator's metrics and health, as http://host:port")
	c.MarkFlagsMutuallyExclusive("url", "output")
	return c
}

// unanswered is the error of a status without an answer.
type unanswered struct{ error }

func (u *unanswered) Unwrap() error { return u.error }

// readiness prints the page /readyz of an operator.
func (a *asking) readiness(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the operator does not answer: %w", err)
	}
	defer answer.Body.Close()
	if err := a.print(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the operator is not ready: status %d", answer.StatusCode)
	}
	return nil
}

func verdict(s *debug.Status) error {
	switch {
	case s.Healthy:
		return nil
	case s.Loading:
		return errors.New("hooks are still being loaded")
	}
	return errors.New("the operator is not healthy")
}
