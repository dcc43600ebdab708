package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/debug"
)

func newStatusCommand(a *asking) *cobra.Command {
	var address string
	var watched bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the problems of a running operator on one screen",
		Long: `Show the problems of a running operator on one screen: permissions, CRDs and connections that are missing, webhooks that are
not registered or whose reviews fail, hooks, workers and filters that fail, a reload that was rejected, tasks that wait for their next
attempt or are parked; then pauses, counts of hooks, workers and queues and the last failed runs.

With --url it asks an operator on another machine by the port of its metrics.

Exit codes: 0 if the operator is healthy, 1 if not, 2 if it does not answer.`,
		Example: "  shell-operator status\n  shell-operator status -o json | jq .healthy\n  shell-operator status --url http://127.0.0.1:9115",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case watched && a.output != formatText:
				return &hinted{fmt.Errorf("--watch shows text, not %s", a.output), "shell-operator tail -o json streams runs as they happen"}
			case watched:
				return a.repeat(statusEvery, func(ctx context.Context) error {
					s, _, err := a.statusOf(ctx, address)
					if err == nil {
						_, err = io.WriteString(a.out(), s.Text(time.Now()))
					}
					return err
				})
			}
			s, answer, err := a.statusOf(cmd.Context(), address)
			if err != nil {
				return err
			}
			if a.output == "text" {
				_, err = io.WriteString(a.out(), s.Text(time.Now()))
			} else {
				err = printValue(a.out(), a.output, json.RawMessage(answer))
			}
			if !s.Healthy {
				err = errors.Join(err, errors.New("the operator is not healthy"))
			}
			return err
		},
	}
	addFormat(c, &a.output, answerFormats...)
	c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("show changes until Ctrl-C; the status is read every %s", statusEvery))
	c.Flags().StringVar(&address, "url", "", "address of the operator's metrics and health, as http://host:port or host:port")
	return c
}

// statusEvery is how often a watched status is read: the operator pushes runs only, and most of the status changes without one.
const statusEvery = 2 * time.Second

// unanswered is the error of a status without an answer.
type unanswered struct{ error }

func (u *unanswered) Unwrap() error { return u.error }

// statusOf returns the status, also as JSON, from the socket if there is no address.
func (a *asking) statusOf(ctx context.Context, address string) (s *debug.Status, answer []byte, err error) {
	if address != "" {
		answer, err = a.remoteStatus(ctx, address)
	} else if answer, err = a.get(ctx, "/status.json"); err != nil {
		err = &unanswered{err}
	}
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(answer, &s); err != nil || s == nil {
		return nil, nil, &unanswered{fmt.Errorf("the answer is no status of a shell-operator: %w", err)}
	}
	return s, answer, nil
}

// remoteStatus returns the status of an operator by the port of its pages.
func (a *asking) remoteStatus(ctx context.Context, address string) ([]byte, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, fmt.Errorf("--url: %q is no address of an operator: write for instance http://127.0.0.1:9115", address)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.JoinPath("status.json").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &unanswered{fmt.Errorf("the operator does not answer: %w", err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, &unanswered{cutOff(err)}
	case answer.StatusCode == http.StatusNotFound:
		return nil, &unanswered{fmt.Errorf("there is no %s: is it the port of --listen-port, and the operator of the same version?", req.URL)}
	case answer.StatusCode != http.StatusOK:
		return nil, &unanswered{fmt.Errorf("%s answers with status %d", req.URL, answer.StatusCode)}
	}
	return text, nil
}
