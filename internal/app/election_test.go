package app

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// counter counts what comes through.
type counter struct{ runs, requests int }

func (c *counter) Execute(context.Context, process.Invocation) (process.Result, error) {
	c.runs++
	return process.Result{}, nil
}

func (c *counter) RoundTrip(*http.Request) (*http.Response, error) {
	c.requests++
	return &http.Response{Body: http.NoBody}, nil
}

// A replica that is not the leader sends no changes, except for runs that answer a request.
func TestFenced(t *testing.T) {
	lease, err := replica.New(replica.Options{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		ctx     context.Context
		enabled bool
		passes  bool
	}{
		{"queues", lease.Fence(t.Context()), true, false},
		{"answers", t.Context(), true, true},
		{"without election", t.Context(), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &counter{}
			_, runErr := fenced{c}.Execute(test.ctx, process.Invocation{})
			config := &rest.Config{}
			ElectionOptions{Enabled: test.enabled}.fence(config)
			if (config.WrapTransport != nil) != test.enabled {
				t.Errorf("the transport is wrapped: %t", config.WrapTransport != nil)
			}
			through, err := rest.HTTPWrappersForConfig(config, c)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(test.ctx, http.MethodPatch, "https://localhost", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, sendErr := through.RoundTrip(req)
			if sendErr == nil {
				res.Body.Close()
			}
			for what, err := range map[string]error{"run": runErr, "request": sendErr} {
				if (err == nil) != test.passes || err != nil && !strings.Contains(err.Error(), "does not lead any more") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if passed := c.runs + c.requests; test.passes && passed != 2 || !test.passes && passed != 0 {
				t.Errorf("%d runs and %d requests came through", c.runs, c.requests)
			}
		})
	}
}
